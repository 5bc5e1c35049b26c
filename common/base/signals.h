// Waits for the signals that end a daemon, on the main thread.
//
// BlockSignals must run before any thread starts, so that all threads inherit the mask and only AwaitSignal
// takes them.
#pragma once

#include <csignal>

namespace numoe {

/// Blocks SIGINT and SIGTERM for this thread and those it starts; ignores SIGPIPE.
inline void BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Returns the signal that came.
inline int AwaitSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  int signal = 0;
  sigwait(&set, &signal);
  return signal;
}

}  // namespace numoe
