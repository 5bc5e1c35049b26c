// Competition for CPUs: a spinning process on each CPU, paused until it is needed.
//
// It has the effect of another program on a shared machine: every thread loses its CPU for a scheduler's
// slice now and then, mostly at different times. The processes end with their owner. Single-threaded use.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe::worker {

class BusyProcesses {
 public:
  /// Starts one process for each of `cpus`, bound to it and paused.
  static absl::StatusOr<BusyProcesses> Start(const std::vector<int>& cpus);
  BusyProcesses(BusyProcesses&& other) noexcept : children_(std::move(other.children_)) {
    other.children_.clear();
  }
  BusyProcesses& operator=(BusyProcesses&&) = delete;
  ~BusyProcesses();

  void Resume() const { Signal(SIGCONT); }
  void Pause() const { Signal(SIGSTOP); }

 private:
  explicit BusyProcesses(std::vector<pid_t> children) : children_(std::move(children)) {}
  void Signal(int number) const;

  std::vector<pid_t> children_;
};

}  // namespace numoe::worker
