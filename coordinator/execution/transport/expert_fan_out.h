// ExpertFanOut: sends each layer call to all expert workers, and adds up their sums.
//
// The workers' replies are added in the order of their slices, so results do not depend on which worker
// answers first. WorkerSessions (worker_sessions.h) knows the workers and whether they are connected; while a
// slice is missing, Start, Finish and BeginDirect return UNAVAILABLE, and AwaitReady waits. The engine thread
// makes calls and calls AwaitReady; any thread may call Ready, Activity and what sessions() allows for any
// thread.
//   A watchdog thread ends a call that is not answered in time. One mutex guards what it reads; the mutex is
// not held while a function of WorkerSessions is called.
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

/// Whether the engine thread is in a call to the workers, and since when; each layer of a step is a call.
struct CallActivity {
  bool in_call = false;
  double seconds = 0;  // since the call began; outside of calls, since the last one ended
};

class ExpertFanOut final : public ExpertBackend, public DirectExperts {
 public:
  /// Waits until all workers are connected. Returns the errors of WorkerSessions::Connect.
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
  void OnIdle() override { sessions_->OnIdle(); }
  bool ConsumeFormatChange() override { return sessions_->ConsumeFormatChange(); }
  DirectExperts* direct() override { return this; }

  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() override { return sessions_->MappedExperts(); }
  absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* release) override;
  absl::Status EndDirect(int calls, int deferring, const absl::Status& result) override;

 private:
  /// The metrics of one worker, looked up once.
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
  // Begin and end every kind of call: they set calling_ and inform the watchdog.
  absl::Status BeginCall(std::atomic<uint32_t>* release);
  void EndCall();
  // Adds up a part of the call's replies. Ends the sessions of workers that fail; they are not called again.
  absl::Status Receive(ReplyPart part, absl::Span<float> out);
  // Receives deferred replies that the engine will not ask for, so that the sessions can continue.
  void DropDeferred();
  // Returns how long to wait for the replies at most.
  int64_t LeftMs() const;
  // Tells the watchdog whether the engine waits for replies now.
  void Watch(bool waits);
  void KeepDeadlines();

  const std::unique_ptr<WorkerSessions> sessions_;
  const std::vector<Series> series_;  // [address]

  // Engine thread only: the outstanding call.
  Phase phase_ = Phase::kIdle;
  std::vector<WorkerSession> calling_;  // in slice order; a link is null if it has failed in this call
  uint64_t call_id_ = 0;                // of the last call; ids ascend
  size_t values_ = 0;                   // number of values in the call's sums [tokens, hidden_size]
  bool defers_ = false;                 // whether the call has a deferred reply
  std::vector<float> dropped_;          // scratch of DropDeferred
  std::chrono::steady_clock::time_point call_started_;
  std::chrono::steady_clock::time_point wait_started_;  // for the part that is being received

  mutable Mutex mutex_;
  CondVar stopped_;
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point watch_since_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();  // when the call began; outside of calls, when the last one ended
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watchdog_;
};

}  // namespace numoe::execution
