#include "coordinator/execution/transport/worker_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe::execution {

WorkerTable::WorkerTable(const std::vector<std::string>& addresses, Metrics& metrics) : metrics_(metrics) {
  for (const std::string& address : addresses) {
    Worker worker;
    worker.status.address = address;
    worker.status.error = "not connected yet";
    workers_.push_back(std::move(worker));
    metrics.With(GaugeId::kWorkerUp, {address}).Set(0);
    metrics.With(CounterId::kWorkerLost, {address});  // exists from the start, so that a rise to 1 is visible
  }
}

std::optional<WorkerTable::Time> WorkerTable::ConnectAt(size_t worker) const {
  NUMOE_CHECK_LT(worker, workers_.size());
  if (workers_[worker].link != nullptr) return std::nullopt;
  return workers_[worker].retry_at;
}

void WorkerTable::Answered(size_t worker, const absl::StatusOr<std::shared_ptr<WorkerLink>>& answer,
                           Time now) {
  NUMOE_CHECK_LT(worker, workers_.size());
  NUMOE_CHECK(workers_[worker].link == nullptr) << "worker " << worker << " has a session";
  NUMOE_CHECK(!answer.ok() || *answer != nullptr);
  if (!answering_) {  // no answer needs the numeric formats of workers that are down
    for (Worker& each : workers_)
      if (!each.status.up) each.status.identity.numeric_formats.clear();
  }
  const absl::Status fits =
      answer.ok() ? CheckFits((*answer)->identity(), worker, Statuses()) : answer.status();
  if (fits.ok()) {
    NoteUp(workers_[worker], *answer, now);
  } else {
    NoteDown(workers_[worker], fits, now);
  }
}

void WorkerTable::NoteUp(Worker& worker, std::shared_ptr<WorkerLink> link, Time now) {
  worker.link = std::move(link);
  worker.status.identity = worker.link->identity();
  const std::string& formats = worker.status.identity.numeric_formats;
  const std::string before = std::exchange(numeric_formats_, formats);
  if (!before.empty() && before != formats) {
    formats_changed_ = true;
    LogInfo("worker {} computes with {}, the workers before it with {}: cached results are not used any more",
            worker.status.address, formats, before);
  }
  worker.status.up = true;
  worker.status.error.clear();
  worker.up_since = now;
  moved_at_ = now;
  worker.load_moves.reset();
  worker.refusal = absl::OkStatus();
  worker.logged_refusal.clear();
  metrics_.With(GaugeId::kWorkerUp, {worker.status.address}).Set(1);
  LogInfo("worker {} is up", worker.status.address);
}

void WorkerTable::NoteDown(Worker& worker, const absl::Status& why, Time now) {
  const std::string error(why.message());
  const bool refused = absl::IsFailedPrecondition(why);
  worker.status.error = error;
  const std::optional<uint64_t> load_moves = MovesOfLoad(why);
  if (load_moves && load_moves != std::exchange(worker.load_moves, load_moves)) moved_at_ = now;
  worker.refusal = refused ? why : absl::OkStatus();
  if (!refused) return PutOff(worker, now);
  worker.retry_at = now + kRefusedInterval;
  // It is logged once, and not at each further attempt.
  if (std::exchange(worker.logged_refusal, error) != error)
    LogWarning("worker {} is not used: {}", worker.status.address, error);
}

void WorkerTable::PutOff(Worker& worker, Time now) {
  worker.retry_at = now + worker.wait;
  worker.wait = std::min(2 * worker.wait, kRetryMax);
}

bool WorkerTable::EndSession(const WorkerSession& session, const absl::Status& why, Time now) {
  NUMOE_CHECK(session.link != nullptr && !why.ok());
  NUMOE_CHECK_LT(session.worker, workers_.size());
  Worker& worker = workers_[session.worker];
  if (worker.link != session.link) return false;  // lost, and perhaps replaced already
  worker.link.reset();
  if (now - worker.up_since > kRetryMax) worker.wait = kRetryMin;
  PutOff(worker, now);
  worker.status.up = false;
  worker.status.error = std::string(why.message());
  metrics_.With(GaugeId::kWorkerUp, {worker.status.address}).Set(0);
  metrics_.With(CounterId::kWorkerLost, {worker.status.address}).Increment();
  LogWarning("worker {} is lost: {}", worker.status.address, worker.status.error);
  return true;
}

absl::StatusOr<std::vector<WorkerSession>> WorkerTable::ForCall() {
  if (!AllUp()) return absl::UnavailableError("a slice of the experts is missing: " + Missing());
  if (formats_changed_)
    return absl::UnavailableError("the workers compute in other numeric formats than those before");
  answering_ = true;
  // In slice order, because sums must not depend on the order of the addresses.
  std::vector<WorkerSession> sessions(workers_.size());
  for (size_t i = 0; i < workers_.size(); ++i) {
    const auto slice = static_cast<size_t>(workers_[i].status.identity.worker_index);
    NUMOE_CHECK(slice < sessions.size() && sessions[slice].link == nullptr) << "slice " << slice;
    sessions[slice] = {workers_[i].link, i};
  }
  return sessions;
}

bool WorkerTable::ConsumeFormatChange() { return std::exchange(formats_changed_, false); }

bool WorkerTable::AllUp() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.link != nullptr; });
}

std::string WorkerTable::Missing() const {
  std::string text;
  for (const Worker& worker : workers_) {
    if (worker.link == nullptr)
      text += fmt::format("{}worker {} ({})", text.empty() ? "" : ", ", worker.status.address,
                          worker.status.error);
  }
  return text;
}

absl::Status WorkerTable::Refusal() const {
  for (const Worker& worker : workers_)
    if (!worker.refusal.ok()) return Annotate(worker.refusal, "worker " + worker.status.address);
  return absl::OkStatus();
}

std::vector<WorkerStatus> WorkerTable::Statuses() const {
  std::vector<WorkerStatus> statuses;
  for (const Worker& worker : workers_) statuses.push_back(worker.status);
  return statuses;
}

std::vector<WorkerSession> WorkerTable::Live() const {
  std::vector<WorkerSession> live;
  for (size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].link != nullptr) live.push_back({workers_[i].link, i});
  return live;
}

std::vector<std::shared_ptr<ExpertMemory>> WorkerTable::MappedExperts() const {
  std::vector<std::shared_ptr<ExpertMemory>> all(workers_.size());
  for (const Worker& worker : workers_) {
    auto experts = worker.link == nullptr ? nullptr : worker.link->experts();
    if (experts == nullptr) return {};
    all[static_cast<size_t>(worker.status.identity.worker_index)] = std::move(experts);
  }
  return all;
}

}  // namespace numoe::execution
