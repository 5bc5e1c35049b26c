// ChildProcess: one program that the supervisor has started, and the last thing it said.
//
// The child runs on the CPUs it is given, with no signal blocked, and ends with its parent (SIGTERM from the
// kernel) if that is killed. Beside stderr, which it shares with its parent, it has a pipe for the one line
// that says why it gives up (ReportToSupervisor), so that the parent can repeat it. Start from the thread
// that lives as long as the parent: the kernel's signal is bound to it. Move-only by unique_ptr; the
// destructor neither kills nor waits.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

class ChildProcess {
 public:
  /// `arguments` without the program, which is this one. RESOURCE_EXHAUSTED: no process or pipe is to be had.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                             const std::vector<std::string>& arguments,
                                                             const std::vector<int>& cpus);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  /// What it reported, once it has ended; "" if it said nothing.
  std::string LastWords() const;

 private:
  ChildProcess(pid_t pid, int words) : pid_(pid), words_(words) {}

  const pid_t pid_;
  const int words_;  // the pipe's reading end
};

/// "signal 9 (Killed)" or "exit code 2", of waitpid's status.
std::string DescribeEnd(int wait_status);

/// Tells the supervisor that started this process why it gives up; false if there is none.
bool ReportToSupervisor(const std::string& line);

}  // namespace numoe
