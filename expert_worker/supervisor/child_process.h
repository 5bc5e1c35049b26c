// ChildProcess: one program that the supervisor has started, and its last report.
//
// The child runs on the CPUs that it is given, with no signal blocked. If its parent is killed, the kernel
// sends it SIGTERM. It shares stderr with its parent, and has a pipe to it for two kinds of reports: how far
// its loading is (ProgressReport), so that the parent can tell a slow child from a hung one, and one line
// that says why it gives up (ReportToSupervisor), so that the parent can repeat that line. Call Start on a
// thread that lives as long as the parent, because the kernel sends that SIGTERM when this thread ends. One
// thread uses the object; the destructor neither kills the child nor waits for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace numoe::worker {

/// How often the supervisor has restarted a worker. The worker's metrics show these counts, which therefore
/// have to outlive its processes.
struct Restarts {
  int ended = 0;  // restarts after the worker had ended by itself
  int hung = 0;   // restarts after it was killed because it hung
};

class ChildProcess {
 public:
  /// `arguments`: without the program's name. Returns RESOURCE_EXHAUSTED if the system has no more processes
  /// or pipes.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                             const std::vector<std::string>& arguments,
                                                             const std::vector<int>& cpus,
                                                             const Restarts& restarts);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  /// Returns the bytes of the child's last ProgressReport; 0 before the first one.
  uint64_t Progress();
  /// Returns what the child reported with ReportToSupervisor; "" if nothing. REQUIRES: the child has ended.
  std::string FinalReport();
  /// Returns whether the child reported that another start would fail in the same way. REQUIRES: FinalReport
  /// was called.
  bool failed_permanently() const { return final_; }

 private:
  ChildProcess(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  void Read();

  const pid_t pid_;
  const int pipe_;  // the end from which the parent reads
  std::string unread_;
  uint64_t progress_ = 0;
  bool final_ = false;
};

/// Returns "signal 9 (Killed)" or "exit code 2" for a status from waitpid.
std::string DescribeEnd(int wait_status);

/// Reports to the supervisor that started this process why the process gives up. `final`: another start would
/// fail in the same way. Returns false if there is no supervisor.
bool ReportToSupervisor(const std::string& line, bool final);

/// Returns the counts that the supervisor has passed to this process; nullopt if there is no supervisor.
std::optional<Restarts> RestartsBySupervisor();

/// Reports to the supervisor every second how many bytes this process has loaded, from a thread of its own,
/// until it is destroyed.
class ProgressReport {
 public:
  /// `bytes` is called on that thread.
  explicit ProgressReport(std::function<uint64_t()> bytes);
  ~ProgressReport();

 private:
  Mutex mutex_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::worker
