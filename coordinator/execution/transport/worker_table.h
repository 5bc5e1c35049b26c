// WorkerTable: what is known of every worker that --workers names, and what follows from it.
//
// Decides which answers to a handshake become sessions (worker_status.h), when a worker that is away is asked
// again, what a call may use, and what logs and metrics say of all that. Workers compute in one arithmetic:
// it may change only between answers, and whoever makes calls takes note of the change first. Plain state
// without threads: WorkerSessions (worker_sessions.h) guards it with its mutex. It never speaks to a worker,
// and whoever calls it keeps the last reference to a session that is lost or refused, because a session's end
// may wait for its worker.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "coordinator/execution/transport/worker_link.h"
#include "coordinator/execution/transport/worker_status.h"

namespace numoe::execution {

/// A live session, for the calls of one step or layer.
struct WorkerSession {
  std::shared_ptr<WorkerLink> link;
  size_t worker = 0;  // index of the address
};

// Before a worker is asked again that could not be reached, or whose session did not last: longer each time.
inline constexpr std::chrono::milliseconds kRetryMin{5}, kRetryMax{1'000};
// After a refusal that somebody has to change something for: another model, another slice, another CA.
inline constexpr std::chrono::milliseconds kRefusedInterval{1'000};

class WorkerTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `metrics` outlives the table.
  WorkerTable(const std::vector<std::string>& addresses, Metrics& metrics);

  /// From when on the worker may be asked for a session; nullopt: it has one.
  std::optional<Time> AskAt(size_t worker) const;
  /// What became of that: a session is taken if it fits. REQUIRES: the worker has none.
  void Answered(size_t worker, const absl::StatusOr<std::shared_ptr<WorkerLink>>& answer, Time now);
  /// Ends a session. False: it was ended already.
  bool Lose(const WorkerSession& session, const absl::Status& why, Time now);

  /// All sessions, in slice order, for a call. UNAVAILABLE: a slice is missing, or nobody took note of a
  /// change of arithmetic.
  absl::StatusOr<std::vector<WorkerSession>> ForCall();
  /// Another arithmetic may come from now on until the next call.
  void AnswersEnded() { answering_ = false; }
  /// True once after it came.
  bool TakeChange();

  bool AllUp() const;
  /// When a worker last came up, or one that loads its weights was seen to have moved; nullopt: never.
  std::optional<Time> MovedAt() const { return moved_at_; }
  /// The workers without a session, and why.
  std::string Missing() const;
  /// The first refusal that somebody has to change something for, with the worker's name; OK: there is none.
  absl::Status Refusal() const;
  /// In the order of the addresses.
  std::vector<WorkerStatus> Statuses() const;
  std::vector<WorkerSession> Live() const;
  /// The workers' weights in slice order; empty unless every worker shares them.
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() const;

 private:
  struct Worker {
    WorkerStatus status;
    std::shared_ptr<WorkerLink> link;  // null: down
    Time retry_at;                     // not asked again before
    Time up_since;
    std::chrono::milliseconds wait = kRetryMin;  // before it is asked after the next failure
    absl::Status refusal;      // what somebody has to change before it can be up; OK: nothing is known
    std::string refusal_said;  // the last one that is in the log, since it was up
    std::optional<uint64_t> load_moves;  // MovesOfLoad when it was asked last
  };
  void NoteUp(Worker& worker, std::shared_ptr<WorkerLink> link, Time now);
  void NoteDown(Worker& worker, const absl::Status& why, Time now);
  static void PutOff(Worker& worker, Time now);

  Metrics& metrics_;
  std::vector<Worker> workers_;  // [address]
  bool answering_ = false;       // a call was made since AnswersEnded
  std::string arithmetic_;       // of the worker that came last
  std::optional<Time> moved_at_;
  bool change_ = false;  // nobody has asked TakeChange since it differed
};

}  // namespace numoe::execution
