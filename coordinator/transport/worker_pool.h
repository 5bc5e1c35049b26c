// WorkerPool: the routed experts served by expert worker processes.
//
// Holds a session with every worker and fans each layer call out to all of them; the replies are added in
// worker order, so results do not depend on who answers first. A thread for each worker connects to it, again
// and again while it is away; a maintenance thread notices dead sessions and ends stuck calls, and waits for
// nobody. A worker that answers but does not fit, at the start or later
// (worker_status.h), is as one that is away. While any slice is missing, Start and Finish answer UNAVAILABLE
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
#include "coordinator/transport/direct_experts.h"
#include "coordinator/transport/expert_backend.h"
#include "coordinator/transport/worker_link.h"
#include "coordinator/transport/worker_status.h"

namespace numoe {

struct WorkerPoolOptions {
  std::vector<std::string> addresses;
  LinkOptions link;
  int64_t start_deadline_ms = 60'000;  // how long Create waits for all workers; 0: for ever
};

/// What the engine thread does with the workers; each layer of a step is a call.
struct CallActivity {
  bool in_call = false;
  double seconds = 0;  // since the call began, or the last one ended, or the pool was made
};

// Before a worker is asked again that could not be reached, or whose session did not last: longer each time.
inline constexpr std::chrono::milliseconds kRetryMin{5}, kRetryMax{1'000};

class WorkerPool final : public ExpertBackend, public DirectExperts {
 public:
  /// Waits until all workers are there. FAILED_PRECONDITION when they do not fit together (a slice twice or
  /// missing, another model); DEADLINE_EXCEEDED names those that did not answer.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(const WorkerPoolOptions& options,
                                                            Metrics& metrics);
  ~WorkerPool() override;

  absl::Status Start(const LayerCallView& call) override;
  absl::Status Finish(absl::Span<float> out) override;
  absl::Status FinishDeferred(absl::Span<float> out) override;
  absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* release) override;
  absl::Status EndDirect(int calls, int deferring, const absl::Status& result) override;
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() override;
  absl::Status AwaitReady(int64_t deadline_ms) override;
  bool Ready() const override;
  std::vector<WorkerStatus> Workers() const;
  CallActivity Activity() const;
  void AnswersEnded() override;
  bool TakeChange() override;
  DirectExperts* direct() override { return this; }
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
    std::chrono::steady_clock::time_point up_since;
    std::chrono::milliseconds wait = kRetryMin;  // before it is asked after the next failure
    absl::Status refusal;      // what somebody has to change before it can be up; OK: nothing is known
    std::string refusal_said;  // the last one that is in the log, since it was up
  };
  WorkerPool(const WorkerPoolOptions& options, Metrics& metrics);
  void Maintain();
  void KeepRetiring();
  void KeepConnected(size_t index);
  void TryConnect(size_t index);
  void NoteDown(Worker& worker, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void PutOff(Worker& worker);
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
  // What is left of the call's time.
  int64_t LeftMs() const;
  // Whether the engine waits for replies from now on, for the watchdog.
  void Watch(bool waits);
  void Release();
  // The first worker's that has one, with its name.
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<WorkerStatus> Statuses() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether Create need not wait any longer.
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return AllUp() || !Refusal().ok(); }
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
  std::chrono::steady_clock::time_point wait_started_;  // for the part that is received

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;                      // for the watchdog
  std::atomic<uint32_t>* release_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of a device that waits
  std::chrono::steady_clock::time_point watch_since_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();  // when the call began; outside of calls when the last one ended
  std::vector<std::shared_ptr<ExpertMemory>> retiring_ ABSL_GUARDED_BY(mutex_);
  bool answering_ ABSL_GUARDED_BY(mutex_) = false;     // a call was made since AnswersEnded
  std::string arithmetic_ ABSL_GUARDED_BY(mutex_);     // of the worker that came last
  bool change_ ABSL_GUARDED_BY(mutex_) = false;        // nobody has asked TakeChange since it differed
  bool retiring_now_ ABSL_GUARDED_BY(mutex_) = false;  // no call begins meanwhile
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_, retirer_;
  std::vector<std::thread> connectors_;  // [worker]
};

}  // namespace numoe
