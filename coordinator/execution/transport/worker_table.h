// WorkerTable: the state of every worker in --workers, and the decisions that depend on it.
//
// It decides which answers to a handshake become sessions (worker_status.h), when to connect again to a
// worker that is down, and which sessions a call uses, and it reports all that in logs and metrics. All
// workers compute in the same numeric formats. These may change only between answers, and the caller that
// makes calls must consume the change first (ConsumeFormatChange). Plain state without threads:
// WorkerSessions (worker_sessions.h) guards it with its mutex. It never communicates with a worker. Its
// caller must keep a reference to a session that is ended or refused and release it later, because destroying
// a session may wait for the worker.
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

/// A session with a worker, for the calls of one step or layer.
struct WorkerSession {
  std::shared_ptr<WorkerLink> link;
  size_t worker = 0;  // index of the address
};

// The time before the next attempt to connect to a worker that could not be reached, or whose session did not
// last. It doubles with each attempt.
inline constexpr std::chrono::milliseconds kRetryMin{5}, kRetryMax{1'000};
// The time after a refusal, for which an operator has to change something: another model, slice or CA.
inline constexpr std::chrono::milliseconds kRefusedInterval{1'000};

class WorkerTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `metrics` must outlive the table.
  WorkerTable(const std::vector<std::string>& addresses, Metrics& metrics);

  /// Returns when to connect to the worker; nullopt if it has a session.
  std::optional<Time> ConnectAt(size_t worker) const;
  /// Records the result of an attempt to connect; the session is used if it fits. REQUIRES: the worker has
  /// none.
  void Answered(size_t worker, const absl::StatusOr<std::shared_ptr<WorkerLink>>& answer, Time now);
  /// Ends a session. Returns false if it was ended already.
  bool EndSession(const WorkerSession& session, const absl::Status& why, Time now);

  /// Returns all sessions, in slice order, for a call; UNAVAILABLE if a slice is missing, or if a change of
  /// numeric formats was not consumed.
  absl::StatusOr<std::vector<WorkerSession>> ForCall();
  /// Allows workers with other numeric formats until the next call.
  void OnIdle() { answering_ = false; }
  /// Returns true once after the numeric formats have changed.
  bool ConsumeFormatChange();

  bool AllUp() const;
  /// Returns when a worker last came up, or was last seen to make progress in loading its weights; nullopt if
  /// that has not happened yet.
  std::optional<Time> MovedAt() const { return moved_at_; }
  /// Returns the workers without a session, and why they have none.
  std::string Missing() const;
  /// Returns the first refusal for which an operator has to change something, with the worker's name; OK if
  /// there is none.
  absl::Status Refusal() const;
  /// Returns the workers' states in the order of the addresses.
  std::vector<WorkerStatus> Statuses() const;
  std::vector<WorkerSession> Live() const;
  /// Returns the workers' weights in slice order; empty unless every worker shares them.
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() const;

 private:
  struct Worker {
    WorkerStatus status;
    std::shared_ptr<WorkerLink> link;  // null if it is down
    Time retry_at;                     // no attempt to connect before this time
    Time up_since;
    std::chrono::milliseconds wait = kRetryMin;  // before the next attempt, if another one fails
    absl::Status refusal;                // what an operator has to change before it can be up; OK if unknown
    std::string logged_refusal;          // the last refusal in the log since it was up
    std::optional<uint64_t> load_moves;  // MovesOfLoad at the last attempt
  };
  void NoteUp(Worker& worker, std::shared_ptr<WorkerLink> link, Time now);
  void NoteDown(Worker& worker, const absl::Status& why, Time now);
  static void PutOff(Worker& worker, Time now);

  Metrics& metrics_;
  std::vector<Worker> workers_;  // [address]
  bool answering_ = false;       // whether a call was made since OnIdle
  std::string numeric_formats_;  // of the worker that came up last
  std::optional<Time> moved_at_;
  bool formats_changed_ = false;  // since ConsumeFormatChange was last called
};

}  // namespace numoe::execution
