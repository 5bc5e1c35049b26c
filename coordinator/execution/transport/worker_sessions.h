// WorkerSessions: keeps a session with every expert worker, and connects again when one is lost.
//
// A thread for each worker connects to it, again and again while it is down. Another thread finds sessions
// whose worker died; it never waits for a worker. A worker that answers but does not fit, at the start or
// later, is treated as one that is down. ExpertFanOut (expert_fan_out.h) communicates with the workers: it
// gets all sessions for a call, and reports which of them failed.
//   One mutex guards the state of the workers (worker_table.h). It is never held during communication with a
// worker, while a session ends, or while the unmapper's mutex or ExpertFanOut's is locked. The engine thread
// calls BeginCall, EndCall, AwaitReady, OnIdle and ConsumeFormatChange; any thread may call the others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "coordinator/execution/transport/deferred_unmapper.h"
#include "coordinator/execution/transport/worker_table.h"

namespace numoe::execution {

struct SessionOptions {
  std::vector<std::string> addresses;
  LinkOptions link;
  // How long Connect waits without progress, which means that no worker comes up and none reads more of its
  // weights. 0 means for ever.
  int64_t start_deadline_ms = 60'000;
  // Called again and again with the workers that Connect waits for, and why; it must not call the sessions.
  // May be null.
  std::function<void(const std::string& missing)> waiting_for = {};
};

class WorkerSessions {
 public:
  /// Waits until all workers are connected. Returns FAILED_PRECONDITION if they do not fit together (a slice
  /// twice or missing, another model), and DEADLINE_EXCEEDED with the workers that are not connected, and
  /// why.
  static absl::StatusOr<std::unique_ptr<WorkerSessions>> Connect(const SessionOptions& options,
                                                                 Metrics& metrics);
  ~WorkerSessions();

  const SessionOptions& options() const { return options_; }
  /// Returns the workers' states in the order of the addresses.
  std::vector<WorkerStatus> Workers() const;
  /// Returns whether there is a session with every worker.
  bool Ready() const;
  /// Waits at most `deadline_ms` until Ready; then returns DEADLINE_EXCEEDED with the missing workers.
  absl::Status AwaitReady(int64_t deadline_ms);
  /// Returns the rows of every expert, over the workers that answer; UNAVAILABLE if none answers. It asks one
  /// worker after another and waits, so it is not for a thread that has other work. With slices by expert,
  /// the experts of a lost worker count 0.
  absl::StatusOr<ExpertRows> CountedRows() const;
  /// Returns the workers' weights in slice order; empty unless every worker shares them.
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() const;

  /// Returns all sessions, in slice order; UNAVAILABLE if a slice is missing, or if a change of numeric
  /// formats was not consumed. Until EndCall no lost worker's memory is unmapped, and `*release` (if not
  /// null) becomes 1 when a session is lost or GiveUpCall is called. REQUIRES: no other call.
  absl::StatusOr<std::vector<WorkerSession>> BeginCall(std::atomic<uint32_t>* release);
  /// Ends what BeginCall began, when the caller no longer waits for replies. It may still receive deferred
  /// replies from the sessions, and then calls EndCall again.
  void EndCall();
  /// Ends a session that failed; does nothing if it was ended already.
  void EndSession(const WorkerSession& session, const absl::Status& why);
  /// Ends everything that could wait for the call for ever: sessions over a stream, and the waiting of a
  /// device. A call over shared memory ends by itself at its deadline, and the other sessions continue.
  void GiveUpCall();
  /// See ExpertBackend.
  void OnIdle();
  bool ConsumeFormatChange();

 private:
  WorkerSessions(const SessionOptions& options, Metrics& metrics);
  absl::Status AwaitStart();
  void KeepConnected(size_t worker);
  void TryConnect(size_t worker);
  void PollSessions();
  void EndDeadSessions();
  std::vector<WorkerSession> Live() const;
  // Returns whether Connect has a result: every worker is up, or one was refused.
  bool StartDecided() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return table_.AllUp() || !table_.Refusal().ok();
  }

  const SessionOptions options_;
  DeferredUnmapper unmapper_;  // for lost workers' weights

  mutable Mutex mutex_;
  CondVar changed_;
  WorkerTable table_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint32_t>* release_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of a device that waits for replies
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread poller_;
  std::vector<std::thread> connectors_;  // [address]
};

}  // namespace numoe::execution
