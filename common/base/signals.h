// Waits for the signals that end a daemon, on the main thread.
//
// BlockSignals must run before any thread starts, so that all threads inherit the mask and only AwaitSignal
// receives the signals. While a daemon still loads and does not wait in AwaitSignal, ScopedDeadlySignals lets
// them end the process at once. It does so with a thread of its own that reads a signalfd, so that the
// signals stay blocked in every thread: otherwise a thread started in this time would inherit them unblocked,
// and a later signal would kill a serving daemon that should first finish its requests.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include "common/base/check.h"

namespace numoe {

inline sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

/// Blocks SIGINT and SIGTERM for this thread and those it starts; ignores SIGPIPE.
inline void BlockSignals() {
  const sigset_t set = EndingSignals();
  const int refused = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  NUMOE_CHECK_EQ(refused, 0);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Waits for SIGINT or SIGTERM and returns it.
inline int AwaitSignal() {
  const sigset_t set = EndingSignals();
  int signal = 0;
  const int refused = sigwait(&set, &signal);
  NUMOE_CHECK_EQ(refused, 0);
  NUMOE_CHECK(signal == SIGINT || signal == SIGTERM) << signal;
  return signal;
}

/// While an object of this class exists, SIGINT and SIGTERM end the process with exit code 128 + signal; so
/// does one that arrived earlier. One that arrives during the destructor stays pending for AwaitSignal.
/// REQUIRES: both signals are blocked. Its thread is named "signals".
class ScopedDeadlySignals {
 public:
  ScopedDeadlySignals() : over_(eventfd(0, EFD_CLOEXEC)) {
    const sigset_t set = EndingSignals();
    signals_ = signalfd(-1, &set, SFD_CLOEXEC);
    NUMOE_CHECK(over_ >= 0 && signals_ >= 0) << errno;
    watcher_ = std::thread([this] { Watch(); });
  }
  ScopedDeadlySignals(const ScopedDeadlySignals&) = delete;
  ScopedDeadlySignals& operator=(const ScopedDeadlySignals&) = delete;
  ~ScopedDeadlySignals() {
    const uint64_t one = 1;
    NUMOE_CHECK_EQ(write(over_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    watcher_.join();
    close(over_);
    close(signals_);
  }

 private:
  void Watch() const {
    pthread_setname_np(pthread_self(), "signals");
    pollfd events[] = {{over_, POLLIN, 0}, {signals_, POLLIN, 0}};
    while (poll(events, 2, -1) < 0) NUMOE_CHECK_EQ(errno, EINTR);
    if (events[0].revents != 0) return;
    signalfd_siginfo info = {};
    const bool whole = read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);
    _exit(128 + (whole ? static_cast<int>(info.ssi_signo) : SIGTERM));
  }

  const int over_;
  int signals_ = -1;
  std::thread watcher_;
};

}  // namespace numoe
