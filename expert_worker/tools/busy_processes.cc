#include "expert_worker/tools/busy_processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "expert_worker/tools/bench_timing.h"

namespace numoe::worker {
namespace {

[[noreturn]] void Spin(int cpu) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  PinTo(cpu);
  raise(SIGSTOP);
  while (true) asm volatile("");
}

}  // namespace

absl::StatusOr<BusyProcesses> BusyProcesses::Start(const std::vector<int>& cpus) {
  BusyProcesses started({});
  for (const int cpu : cpus) {
    const pid_t child = fork();
    if (child == 0) Spin(cpu);
    if (child < 0) {
      return absl::ResourceExhaustedError(
          fmt::format("cannot start a busy process for CPU {}: {}", cpu, std::strerror(errno)));
    }
    started.children_.push_back(child);
  }
  return started;
}

BusyProcesses::~BusyProcesses() {
  Signal(SIGKILL);
  for (const pid_t child : children_) waitpid(child, nullptr, 0);
}

void BusyProcesses::Signal(int number) const {
  for (const pid_t child : children_) {
    NUMOE_CHECK_GT(child, 0) << "or the signal would go to a whole group of processes";
    kill(child, number);
  }
}

}  // namespace numoe::worker
