// ChildProcess: one program that the supervisor has started, and the last thing it said.
//
// The child runs on the CPUs it is given, with no signal blocked, and ends with its parent (SIGTERM from the
// kernel) if that is killed. Beside stderr, which it shares with its parent, it has a pipe: for how far its
// loading is (ProgressReport), so that the parent can tell slow from hung, and for the one line that says why
// it gives up (ReportToSupervisor), so that the parent can repeat it. Start from the thread that lives as
// long as the parent: the kernel's signal is bound to it. One thread; the destructor neither kills nor waits.
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

/// How often a worker was started again, which it tells in its metrics: they outlive its processes.
struct Restarts {
  int ended = 0;  // it had ended by itself
  int hung = 0;   // it was killed because it did nothing
};

class ChildProcess {
 public:
  /// `arguments` without the program, which is this one. RESOURCE_EXHAUSTED: no process or pipe is to be had.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                             const std::vector<std::string>& arguments,
                                                             const std::vector<int>& cpus,
                                                             const Restarts& restarts);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  /// As its ProgressReport said it last; 0 before.
  uint64_t Progress();
  /// What it reported, once it has ended; "" if it said nothing.
  std::string LastWords();
  /// Whether it said that another try would end alike. After LastWords.
  bool gave_up_for_good() const { return final_; }

 private:
  ChildProcess(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  void Read();

  const pid_t pid_;
  const int pipe_;  // its reading end
  std::string unread_;
  uint64_t progress_ = 0;
  bool final_ = false;
};

/// "signal 9 (Killed)" or "exit code 2", of waitpid's status.
std::string DescribeEnd(int wait_status);

/// Tells the supervisor that started this process why it gives up, and whether for good: `final`, where
/// another try would end alike. False if there is no supervisor.
bool ReportToSupervisor(const std::string& line, bool final);

/// What that supervisor says; nullopt if there is none.
std::optional<Restarts> RestartsBySupervisor();

/// Tells that supervisor every second how far this process is, from a thread of its own, as long as it lives.
class ProgressReport {
 public:
  /// `bytes` is asked by that thread.
  explicit ProgressReport(std::function<uint64_t()> bytes);
  ~ProgressReport();

 private:
  Mutex mutex_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::worker
