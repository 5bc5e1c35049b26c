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

// How often the sessions are polled: the death of an idle worker is noticed within this time.
constexpr std::chrono::milliseconds kPollInterval(5);
// The time between two log lines about what the start waits for.
constexpr std::chrono::seconds kStartLineInterval(10);
constexpr int64_t kCountedRowsDeadlineMs = 1'000;  // for one worker; its answer takes milliseconds

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
  poller_ = std::thread([this] { PollSessions(); });
  for (size_t i = 0; i < options.addresses.size(); ++i)
    connectors_.emplace_back([this, i] { KeepConnected(i); });
}

WorkerSessions::~WorkerSessions() {
  {
    const MutexLock lock(mutex_);
    NUMOE_CHECK(release_ == nullptr) << "a device is still waiting for replies";
    stop_ = true;
  }
  changed_.NotifyAll();
  poller_.join();
  for (std::thread& connector : connectors_) connector.join();
}

absl::Status WorkerSessions::AwaitStart() {
  const MutexLock lock(mutex_);
  const std::chrono::milliseconds patience(options_.start_deadline_ms);
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_line = begin + kStartLineInterval;
  while (!StartDecided()) {
    const Clock::time_point now = Clock::now(), deadline = table_.MovedAt().value_or(begin) + patience;
    if (patience.count() > 0 && now >= deadline) break;
    const std::string missing = table_.Missing();
    if (options_.waiting_for != nullptr) options_.waiting_for(missing);
    if (now >= next_line) {
      LogInfo("waiting for {}", missing);
      next_line = now + kStartLineInterval;
    }
    (void)changed_.WaitUntil(mutex_, patience.count() > 0 ? std::min(deadline, next_line) : next_line);
  }
  RETURN_IF_ERROR(table_.Refusal());
  if (!table_.AllUp())
    return absl::DeadlineExceededError(fmt::format(
        "workers are not ready, and there was no progress for {} ms: {}; start these workers, or raise "
        "--worker-start-timeout-ms",
        options_.start_deadline_ms, table_.Missing()));
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
    const auto connect_at = table_.ConnectAt(worker);
    if (!connect_at) {
      changed_.Wait(mutex_);
    } else if (Clock::now() < *connect_at) {
      (void)changed_.WaitUntil(mutex_, *connect_at);
    } else {
      lock.Unlock();
      TryConnect(worker);
      lock.Lock();
    }
  }
}

void WorkerSessions::TryConnect(size_t worker) {
  // `answer` outlives the lock, so that a session that does not fit ends after the mutex is released.
  const absl::StatusOr<std::shared_ptr<WorkerLink>> answer =
      WorkerLink::Connect(options_.addresses[worker], options_.link);
  const MutexLock lock(mutex_);
  table_.Answered(worker, answer, Clock::now());
  changed_.NotifyAll();
}

void WorkerSessions::PollSessions() {
  pthread_setname_np(pthread_self(), "worker-poll");
  MutexLock lock(mutex_);
  while (!stop_) {
    lock.Unlock();
    EndDeadSessions();
    lock.Lock();
    const auto next_poll = Clock::now() + kPollInterval;
    while (!stop_ && changed_.WaitUntil(mutex_, next_poll)) {
    }
  }
}

void WorkerSessions::EndDeadSessions() {
  for (const WorkerSession& session : Live()) {
    const absl::Status alive = session.link->Alive();
    if (alive.ok()) continue;
    EndSession(session, alive);  // before Abort, so that the engine's call reports this error
    session.link->Abort();
  }
}

void WorkerSessions::EndSession(const WorkerSession& session, const absl::Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!table_.EndSession(session, why, Clock::now())) return;
    if (release_ != nullptr) release_->store(1);  // a device that waits has no deadline itself
    changed_.NotifyAll();
  }
  if (auto experts = session.link->experts(); experts != nullptr) unmapper_.Add(std::move(experts));
}

absl::StatusOr<std::vector<WorkerSession>> WorkerSessions::BeginCall(std::atomic<uint32_t>* release) {
  unmapper_.Hold();
  MutexLock lock(mutex_);
  absl::StatusOr<std::vector<WorkerSession>> sessions = table_.ForCall();
  if (sessions.ok()) {
    release_ = release;
    return sessions;
  }
  lock.Unlock();
  unmapper_.Allow();
  return sessions;
}

void WorkerSessions::EndCall() {
  {
    const MutexLock lock(mutex_);
    release_ = nullptr;
  }
  unmapper_.Allow();
}

void WorkerSessions::GiveUpCall() {
  for (const WorkerSession& session : Live())
    if (!session.link->identity().shared_memory) session.link->Abort();
  const MutexLock lock(mutex_);
  if (release_ != nullptr) release_->store(1);
}

void WorkerSessions::OnIdle() {
  const MutexLock lock(mutex_);
  table_.OnIdle();
}

bool WorkerSessions::ConsumeFormatChange() {
  const MutexLock lock(mutex_);
  return table_.ConsumeFormatChange();
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
      failure = absl::InternalError(fmt::format(
          "statistics of {} layers, expected {} as from another worker; run the same release on all "
          "workers",
          one->layers, all.layers));
    } else {
      MergeExpertRows(*one, session.link->identity().slice_by_expert, all);
    }
  }
  if (all.rows.empty())
    return absl::UnavailableError(
        fmt::format("no worker has answered with its statistics: {}", std::string(failure.message())));
  return all;
}

}  // namespace numoe::execution
