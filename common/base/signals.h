// Waits for the signals that end a daemon, on the main thread.
//
// BlockSignals must run before any thread starts, so that all threads inherit the mask and only AwaitSignal
// takes them. While nobody awaits them, because a daemon still loads, ScopedDeadlySignals on the main thread
// lets them end the process at once.
#pragma once

#include <unistd.h>

#include <csignal>
#include <initializer_list>

#include "common/base/check.h"

namespace numoe {

/// Blocks SIGINT and SIGTERM for this thread and those it starts; ignores SIGPIPE.
inline void BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  const int refused = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  NUMOE_CHECK_EQ(refused, 0);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Returns the signal that came.
inline int AwaitSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  int signal = 0;
  const int refused = sigwait(&set, &signal);
  NUMOE_CHECK_EQ(refused, 0);
  NUMOE_CHECK(signal == SIGINT || signal == SIGTERM) << signal;
  return signal;
}

/// SIGINT and SIGTERM end the process with exit code 128 + signal while this lives; before and after, they
/// are blocked. A handler, because process 1 of a container does not get signals that have none.
class ScopedDeadlySignals {
 public:
  ScopedDeadlySignals() {
    Set([](int signal) { _exit(128 + signal); }, SIG_UNBLOCK);
  }
  ScopedDeadlySignals(const ScopedDeadlySignals&) = delete;
  ScopedDeadlySignals& operator=(const ScopedDeadlySignals&) = delete;
  ~ScopedDeadlySignals() { Set(SIG_DFL, SIG_BLOCK); }

 private:
  static void Set(void (*handler)(int), int mask) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM}) {
      sigaddset(&set, signal);
      std::signal(signal, handler);
    }
    pthread_sigmask(mask, &set, nullptr);
  }
};

}  // namespace numoe
