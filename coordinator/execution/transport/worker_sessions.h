// WorkerSessions: a session with every expert worker, opened again whenever it is lost.
//
// A thread for each worker connects to it, again and again while it is away; another thread notices sessions
// whose worker died, and waits for nobody. A worker that answers but does not fit, at the start or later, is
// as one that is away. What is said to the workers is ExpertFanOut's (expert_fan_out.h): it takes all
// sessions for a call, and says which of them failed.
//   One mutex guards all that is known of the workers (worker_table.h). It is never held while a worker is
// spoken to, while a session ends, or while the retirer's mutex or ExpertFanOut's is taken. BeginCall,
// EndCall, AwaitReady, AnswersEnded and TakeChange are called by the engine thread, the others by any.
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
#include "coordinator/execution/transport/memory_retirer.h"
#include "coordinator/execution/transport/worker_table.h"

namespace numoe::execution {

struct SessionOptions {
  std::vector<std::string> addresses;
  LinkOptions link;
  // How long Connect waits while nothing moves: no worker comes up, and none reads more of its weights. 0:
  // for ever.
  int64_t start_deadline_ms = 60'000;
  // Told again and again which workers Connect waits for, and why; must not ask the sessions. Null: nobody.
  std::function<void(const std::string& missing)> waiting_for = {};
};

class WorkerSessions {
 public:
  /// Waits until all workers are there. FAILED_PRECONDITION when they do not fit together (a slice twice or
  /// missing, another model); DEADLINE_EXCEEDED names those that are not there, and why.
  static absl::StatusOr<std::unique_ptr<WorkerSessions>> Connect(const SessionOptions& options,
                                                                 Metrics& metrics);
  ~WorkerSessions();

  const SessionOptions& options() const { return options_; }
  /// In the order of the addresses.
  std::vector<WorkerStatus> Workers() const;
  /// True while there is a session with every worker.
  bool Ready() const;
  /// Waits for that at most `deadline_ms`. DEADLINE_EXCEEDED names those that are missing.
  absl::Status AwaitReady(int64_t deadline_ms);
  /// Rows of every expert, over the workers that answer: asks each in turn and waits, so not for a thread
  /// that serves others. Experts of a lost worker's own slice count 0. UNAVAILABLE: nobody answers.
  absl::StatusOr<ExpertRows> CountedRows() const;
  /// The workers' weights in slice order; empty unless every worker shares them.
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() const;

  /// All sessions, in slice order. Until EndCall no lost worker's memory is retired, and `*release`, where
  /// there is one, becomes 1 when a session is lost or GiveUpCall is called. UNAVAILABLE: a slice is missing,
  /// or nobody took note of a change of arithmetic. REQUIRES: no other call.
  absl::StatusOr<std::vector<WorkerSession>> BeginCall(std::atomic<uint32_t>* release);
  /// Nobody waits for replies. The sessions can be used further, as for replies that come later; then EndCall
  /// is called again.
  void EndCall();
  /// Ends a session that failed. Nothing happens if that was known already.
  void Lose(const WorkerSession& session, const absl::Status& why);
  /// Ends whatever would wait for the call for ever: sessions through a stream, and a device's waiting. A
  /// call through shared memory ends by itself at its deadline, and the other sessions go on.
  void GiveUpCall();
  /// ExpertBackend's.
  void AnswersEnded();
  bool TakeChange();

 private:
  WorkerSessions(const SessionOptions& options, Metrics& metrics);
  absl::Status AwaitStart();
  void KeepConnected(size_t worker);
  void TryConnect(size_t worker);
  void KeepLooking();
  void LoseTheDead();
  std::vector<WorkerSession> Live() const;
  // Whether Connect need not wait any longer.
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return table_.AllUp() || !table_.Refusal().ok();
  }

  const SessionOptions options_;
  MemoryRetirer retirer_;  // of lost workers' weights

  mutable Mutex mutex_;
  CondVar changed_;
  WorkerTable table_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint32_t>* release_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of a device that waits
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread looker_;
  std::vector<std::thread> connectors_;  // [address]
};

}  // namespace numoe::execution
