// Competition for CPUs: one process spinning on each, paused until it is wanted.
//
// What a neighbour on a shared machine does to a thread pool: every thread loses its CPU for a scheduler's
// slice now and then, mostly at different times. They end with their owner. Single-threaded use.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe::worker {

class BusyProcesses {
 public:
  /// One for each of `cpus`, bound to it; paused.
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
