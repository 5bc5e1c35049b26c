// ExpertFanOut: each layer call to all expert workers, and their sums added up.
//
// The workers' replies are added in the order of their slices, so results do not depend on who answers first.
// Who the workers are, and whether they are there, is WorkerSessions' (worker_sessions.h); while any slice is
// missing, Start, Finish and BeginDirect answer UNAVAILABLE and AwaitReady waits. Calls and AwaitReady are
// made by the engine thread; Ready, Activity and what sessions() offers by any.
//   A watchdog thread ends a call that nobody answers in time. One mutex guards what it looks at; it is not
// held when a function of WorkerSessions is called.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "coordinator/execution/transport/direct_experts.h"
#include "coordinator/execution/transport/expert_backend.h"
#include "coordinator/execution/transport/worker_sessions.h"

namespace numoe::execution {

/// What the engine thread does with the workers; each layer of a step is a call.
struct CallActivity {
  bool in_call = false;
  double seconds = 0;  // since the call began, or the last one ended, or the fan-out was made
};

class ExpertFanOut final : public ExpertBackend, public DirectExperts {
 public:
  /// Waits until all workers are there, and fails as WorkerSessions::Connect does.
  static absl::StatusOr<std::unique_ptr<ExpertFanOut>> Connect(const SessionOptions& options,
                                                               Metrics& metrics);
  ~ExpertFanOut() override;

  const WorkerSessions& sessions() const { return *sessions_; }
  CallActivity Activity() const;

  absl::Status Start(const LayerCallView& call) override;
  absl::Status Finish(absl::Span<float> out) override;
  absl::Status FinishDeferred(absl::Span<float> out) override;
  absl::Status AwaitReady(int64_t deadline_ms) override { return sessions_->AwaitReady(deadline_ms); }
  bool Ready() const override { return sessions_->Ready(); }
  void AnswersEnded() override { sessions_->AnswersEnded(); }
  bool TakeChange() override { return sessions_->TakeChange(); }
  DirectExperts* direct() override { return this; }

  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() override { return sessions_->MappedExperts(); }
  absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* release) override;
  absl::Status EndDirect(int calls, int deferring, const absl::Status& result) override;

 private:
  /// One worker's series, taken once.
  struct Series {
    prometheus::Histogram* duration;
    prometheus::Counter* sent;
    prometheus::Counter* received;
  };
  enum class Phase : uint8_t {
    kIdle,
    kCalled,    // from Start to Finish
    kDeferred,  // from Finish to FinishDeferred, or to the next call if the step was given up
    kDirect     // from BeginDirect to EndDirect
  };

  ExpertFanOut(std::unique_ptr<WorkerSessions> sessions, std::vector<Series> series);
  // What all kinds of calls begin and end with: calling_, and the watchdog.
  absl::Status BeginCall(std::atomic<uint32_t>* release);
  void EndCall();
  // Adds up a part of the call's replies; the workers that fail are lost and called no more.
  absl::Status Receive(ReplyPart part, absl::Span<float> out);
  // Takes the deferred replies that nobody will ask for, so that the sessions can go on.
  void DropDeferred();
  // What is left of the time to wait for the replies.
  int64_t LeftMs() const;
  // Whether the engine waits for replies from now on, for the watchdog.
  void Watch(bool waits);
  void KeepDeadlines();

  const std::unique_ptr<WorkerSessions> sessions_;
  const std::vector<Series> series_;  // [address]

  // Engine thread only: the call that is out.
  Phase phase_ = Phase::kIdle;
  std::vector<WorkerSession> calling_;  // in slice order; null links: failed in this call
  uint64_t call_id_ = 0;                // of the last call: they ascend
  size_t values_ = 0;                   // of the call's sums: [tokens, hidden_size]
  bool defers_ = false;                 // the call has a deferred reply
  std::vector<float> dropped_;          // DropDeferred's
  std::chrono::steady_clock::time_point call_started_;
  std::chrono::steady_clock::time_point wait_started_;  // for the part that is received

  mutable Mutex mutex_;
  CondVar stopped_;
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point watch_since_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();  // when the call began; outside of calls when the last one ended
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watchdog_;
};

}  // namespace numoe::execution
