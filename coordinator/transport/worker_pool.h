// WorkerPool: the routed experts served by expert worker processes.
//
// Holds a session with every worker and fans each layer call out to all of them; the replies are added in
// worker order, so results do not depend on who answers first. A maintenance thread connects, notices dead
// sessions, ends stuck calls and reconnects; while any slice is missing, Start and Finish answer UNAVAILABLE
// and AwaitReady waits. Calls and AwaitReady are made by the engine thread; Ready, Workers, Activity and
// CountedRows by any.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "coordinator/transport/expert_backend.h"
#include "coordinator/transport/worker_link.h"

namespace numoe {

struct WorkerPoolOptions {
  std::vector<std::string> addresses;
  LinkOptions link;
  int64_t start_deadline_ms = 60'000;  // how long Create waits for all workers; 0: for ever
};

struct WorkerStatus {
  std::string address;
  bool up = false;
  WorkerIdentity identity;  // of the last session
  std::string error;        // why it is down
};

/// What the engine thread does with the workers; each layer of a step is a call.
struct CallActivity {
  bool in_call = false;
  double seconds = 0;  // since the call began, or the last one ended, or the pool was made
};

class WorkerPool final : public ExpertBackend {
 public:
  /// Waits until all workers are there. FAILED_PRECONDITION when they do not fit together (a slice twice or
  /// missing, another model); DEADLINE_EXCEEDED names those that did not answer.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(const WorkerPoolOptions& options,
                                                            Metrics& metrics);
  ~WorkerPool() override;

  absl::Status Start(const ExpertCall& call) override;
  absl::Status Finish(absl::Span<float> out) override;
  absl::Status FinishDeferred(absl::Span<float> out) override;
  absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* release) override;
  absl::Status EndDirect(int calls, int deferring, const absl::Status& result) override;
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() override;
  absl::Status AwaitReady(int64_t deadline_ms) override;
  bool Ready() const override;
  std::vector<WorkerStatus> Workers() const;
  CallActivity Activity() const;
  /// Rows of every expert, over the workers that answer: asks each in turn and waits, so not for a thread
  /// that serves others. Experts of a lost worker's own slice count 0. UNAVAILABLE: nobody answers.
  absl::StatusOr<ExpertRows> CountedRows() const;

 private:
  /// One worker's series, taken once.
  struct Series {
    prometheus::Histogram* duration;
    prometheus::Counter* sent;
    prometheus::Counter* received;
  };
  struct Worker {
    WorkerStatus status;
    std::shared_ptr<WorkerLink> link;                // null: down
    std::chrono::steady_clock::time_point retry_at;  // not asked again before
  };
  WorkerPool(const WorkerPoolOptions& options, Metrics& metrics);
  void Maintain();
  void TryConnect(size_t index);
  void CheckLinks();
  // Lets go of the weights of workers that were lost, once no step uses them.
  void RetireExperts();
  void Lose(size_t index, const std::shared_ptr<WorkerLink>& link, const absl::Status& why);
  // What all kinds of calls begin and end with: calling_ in slice order, and the watchdog.
  absl::Status BeginCall(std::atomic<uint32_t>* release);
  void EndCall();
  // Adds up a part of the call's replies; the workers that fail are lost and called no more.
  absl::Status Receive(ReplyPart part, absl::Span<float> out);
  // Takes the deferred replies that nobody will ask for, so that the sessions can go on.
  void DropDeferred();
  // Whether the engine waits for replies from now on, for the watchdog.
  void Watch(bool waits);
  void Release();
  absl::Status CheckSlices() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether Create need not wait any longer.
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !fatal_.ok() || AllUp(); }
  bool CanServe() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return AllUp() && fatal_.ok(); }
  bool AllUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const WorkerPoolOptions options_;
  Metrics& metrics_;
  std::vector<Series> series_;  // [worker]

  // Engine thread only: the call in flight.
  struct InFlight {
    std::shared_ptr<WorkerLink> link;
    size_t worker = 0;  // index of the address
  };
  std::vector<InFlight> calling_;  // in slice order
  uint64_t call_id_ = 0;
  size_t deferred_values_ = 0;  // of the call's deferred reply, until it was received; 0: none
  std::vector<float> dropped_;  // DropDeferred's
  std::chrono::steady_clock::time_point call_started_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);                        // a worker that will never fit
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;                      // for the watchdog
  std::atomic<uint32_t>* release_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of a device that waits
  std::chrono::steady_clock::time_point watch_since_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();  // when the call began; outside of calls when the last one ended
  std::vector<std::shared_ptr<ExpertMemory>> retiring_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe
