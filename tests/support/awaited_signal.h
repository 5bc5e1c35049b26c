// AwaitedSignal: sends this process SIGTERM once its main thread waits for it (common/base/signals.h).
//
// A signal that is sent earlier could end the process, because threads that were started while a daemon loads
// do not block it. The kernel shows whether the main thread waits: sigwait removes the signal from the
// thread's mask as long as it waits. It has a thread of its own, which the destructor joins.
#pragma once

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/becomes.h"

namespace numoe {

class AwaitedSignal {
 public:
  AwaitedSignal()
      : thread_([] {
          if (Becomes(MainThreadTakesIt)) kill(getpid(), SIGTERM);
        }) {}
  ~AwaitedSignal() { thread_.join(); }
  AwaitedSignal(const AwaitedSignal&) = delete;
  AwaitedSignal& operator=(const AwaitedSignal&) = delete;

 private:
  static bool MainThreadTakesIt() {
    std::ifstream status("/proc/self/task/" + std::to_string(getpid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:", 0) == 0)
        return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) == 0;
    }
    return false;
  }

  std::thread thread_;
};

}  // namespace numoe
