#include "coordinator/execution/transport/worker_sessions.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe::execution {
namespace {

using Clock = std::chrono::steady_clock;

// How often the sessions are looked at: the bound on noticing an idle worker's death.
constexpr std::chrono::milliseconds kLookInterval(5);
// Time between two lines of the log that say what the start waits for.
constexpr std::chrono::seconds kStartLineInterval(10);
constexpr int64_t kCountedRowsDeadlineMs = 1'000;  // of one worker; its answer takes milliseconds

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSessions>> WorkerSessions::Connect(const SessionOptions& options,
                                                                        Metrics& metrics) {
  if (options.addresses.empty())
    return absl::InvalidArgumentError("--workers: expected at least one address");
  auto sessions = std::unique_ptr<WorkerSessions>(new WorkerSessions(options, metrics));
  RETURN_IF_ERROR(sessions->AwaitStart());
  return sessions;
}

WorkerSessions::WorkerSessions(const SessionOptions& options, Metrics& metrics)
    : options_(options), table_(options.addresses, metrics) {
  looker_ = std::thread([this] { KeepLooking(); });
  for (size_t i = 0; i < options.addresses.size(); ++i)
    connectors_.emplace_back([this, i] { KeepConnected(i); });
}

WorkerSessions::~WorkerSessions() {
  {
    const MutexLock lock(mutex_);
    NUMOE_CHECK(release_ == nullptr) << "a device still waits for replies";
    stop_ = true;
  }
  changed_.NotifyAll();
  looker_.join();
  for (std::thread& connector : connectors_) connector.join();
}

absl::Status WorkerSessions::AwaitStart() {
  const MutexLock lock(mutex_);
  const std::chrono::milliseconds patience(options_.start_deadline_ms);
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_line = begin + kStartLineInterval;
  while (!Settled()) {
    const Clock::time_point now = Clock::now(), given_up = table_.MovedAt().value_or(begin) + patience;
    if (patience.count() > 0 && now >= given_up) break;
    const std::string missing = table_.Missing();
    if (options_.waiting_for != nullptr) options_.waiting_for(missing);
    if (now >= next_line) {
      LogInfo("waiting for {}", missing);
      next_line = now + kStartLineInterval;
    }
    (void)changed_.WaitUntil(mutex_, patience.count() > 0 ? std::min(given_up, next_line) : next_line);
  }
  RETURN_IF_ERROR(table_.Refusal());
  if (!table_.AllUp())
    return absl::DeadlineExceededError(
        fmt::format("workers are not ready, and nothing has moved for {} ms: {}", options_.start_deadline_ms,
                    table_.Missing()));
  for (const WorkerStatus& worker : table_.Statuses()) {
    LogInfo("worker {}: {} through {}", worker.address, worker.identity.description,
            worker.identity.shared_memory ? "shared memory" : "gRPC");
  }
  return absl::OkStatus();
}

void WorkerSessions::KeepConnected(size_t worker) {
  pthread_setname_np(pthread_self(), "worker-connect");
  MutexLock lock(mutex_);
  while (!stop_) {
    const auto ask_at = table_.AskAt(worker);
    if (!ask_at) {
      changed_.Wait(mutex_);
    } else if (Clock::now() < *ask_at) {
      (void)changed_.WaitUntil(mutex_, *ask_at);
    } else {
      lock.Unlock();
      TryConnect(worker);
      lock.Lock();
    }
  }
}

void WorkerSessions::TryConnect(size_t worker) {
  // Lives longer than the lock: a session that does not fit ends here.
  const absl::StatusOr<std::shared_ptr<WorkerLink>> answer =
      WorkerLink::Connect(options_.addresses[worker], options_.link);
  const MutexLock lock(mutex_);
  table_.Answered(worker, answer, Clock::now());
  changed_.NotifyAll();
}

void WorkerSessions::KeepLooking() {
  pthread_setname_np(pthread_self(), "worker-look");
  MutexLock lock(mutex_);
  while (!stop_) {
    lock.Unlock();
    LoseTheDead();
    lock.Lock();
    const auto next_look = Clock::now() + kLookInterval;
    while (!stop_ && changed_.WaitUntil(mutex_, next_look)) {
    }
  }
}

void WorkerSessions::LoseTheDead() {
  for (const WorkerSession& session : Live()) {
    const absl::Status alive = session.link->Alive();
    if (alive.ok()) continue;
    Lose(session, alive);  // first, or the engine's call says less when it ends
    session.link->Abort();
  }
}

void WorkerSessions::Lose(const WorkerSession& session, const absl::Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!table_.Lose(session, why, Clock::now())) return;
    if (release_ != nullptr) release_->store(1);  // a device that waits has no deadline of its own
    changed_.NotifyAll();
  }
  if (auto experts = session.link->experts(); experts != nullptr) retirer_.Add(std::move(experts));
}

absl::StatusOr<std::vector<WorkerSession>> WorkerSessions::BeginCall(std::atomic<uint32_t>* release) {
  retirer_.Hold();
  MutexLock lock(mutex_);
  absl::StatusOr<std::vector<WorkerSession>> sessions = table_.ForCall();
  if (sessions.ok()) {
    release_ = release;
    return sessions;
  }
  lock.Unlock();
  retirer_.Allow();
  return sessions;
}

void WorkerSessions::EndCall() {
  {
    const MutexLock lock(mutex_);
    release_ = nullptr;
  }
  retirer_.Allow();
}

void WorkerSessions::GiveUpCall() {
  for (const WorkerSession& session : Live())
    if (!session.link->identity().shared_memory) session.link->Abort();
  const MutexLock lock(mutex_);
  if (release_ != nullptr) release_->store(1);
}

void WorkerSessions::AnswersEnded() {
  const MutexLock lock(mutex_);
  table_.AnswersEnded();
}

bool WorkerSessions::TakeChange() {
  const MutexLock lock(mutex_);
  return table_.TakeChange();
}

absl::Status WorkerSessions::AwaitReady(int64_t deadline_ms) {
  const MutexLock lock(mutex_);
  const auto deadline = Clock::now() + std::chrono::milliseconds(deadline_ms);
  while (!table_.AllUp() && changed_.WaitUntil(mutex_, deadline)) {
  }
  if (table_.AllUp()) return absl::OkStatus();
  return absl::DeadlineExceededError("experts are missing: " + table_.Missing());
}

bool WorkerSessions::Ready() const {
  const MutexLock lock(mutex_);
  return table_.AllUp();
}

std::vector<WorkerStatus> WorkerSessions::Workers() const {
  const MutexLock lock(mutex_);
  return table_.Statuses();
}

std::vector<std::shared_ptr<ExpertMemory>> WorkerSessions::MappedExperts() const {
  const MutexLock lock(mutex_);
  return table_.MappedExperts();
}

std::vector<WorkerSession> WorkerSessions::Live() const {
  const MutexLock lock(mutex_);
  return table_.Live();
}

absl::StatusOr<ExpertRows> WorkerSessions::CountedRows() const {
  ExpertRows all;
  absl::Status failure = absl::UnavailableError("no worker is connected");
  for (const WorkerSession& session : Live()) {
    const absl::StatusOr<ExpertRows> one = session.link->CountedRows(kCountedRowsDeadlineMs);
    if (!one.ok()) {
      failure = one.status();
    } else if (!all.rows.empty() && one->layers != all.layers) {
      failure = absl::InternalError(
          fmt::format("statistics of {} layers, expected {} as another worker has", one->layers, all.layers));
    } else {
      MergeExpertRows(*one, session.link->identity().slice_by_expert, all);
    }
  }
  if (all.rows.empty())
    return absl::UnavailableError(
        fmt::format("no worker tells its statistics: {}", std::string(failure.message())));
  return all;
}

}  // namespace numoe::execution
