#include "coordinator/transport/worker_pool.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;

// How often the maintenance thread looks: the bound on noticing an idle worker's death.
constexpr std::chrono::milliseconds kLookInterval(5);
// After a refusal that somebody has to change something for: another model, another slice, another CA.
constexpr std::chrono::seconds kRefusedInterval(1);
constexpr int64_t kCountedRowsDeadlineMs = 1'000;  // of one worker; its answer takes milliseconds

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(const WorkerPoolOptions& options,
                                                               Metrics& metrics) {
  if (options.addresses.empty())
    return absl::InvalidArgumentError("--workers: expected at least one address");
  auto pool = std::unique_ptr<WorkerPool>(new WorkerPool(options, metrics));
  const MutexLock lock(pool->mutex_);
  if (options.start_deadline_ms == 0) {
    while (!pool->Settled()) pool->changed_.Wait(pool->mutex_);
  } else {
    const auto deadline = Clock::now() + std::chrono::milliseconds(options.start_deadline_ms);
    while (!pool->Settled() && pool->changed_.WaitUntil(pool->mutex_, deadline)) {
    }
  }
  RETURN_IF_ERROR(pool->Refusal());
  if (!pool->AllUp())
    return absl::DeadlineExceededError(
        fmt::format("workers not ready after {} ms: {}", options.start_deadline_ms, pool->Missing()));
  for (const Worker& worker : pool->workers_) {
    LogInfo("worker {}: {} through {}", worker.status.address, worker.status.identity.description,
            worker.status.identity.shared_memory ? "shared memory" : "gRPC");
  }
  return pool;
}

WorkerPool::WorkerPool(const WorkerPoolOptions& options, Metrics& metrics)
    : options_(options), metrics_(metrics) {
  for (const std::string& address : options.addresses) {
    Worker worker;
    worker.status.address = address;
    worker.status.error = "not connected yet";
    workers_.push_back(std::move(worker));
    metrics.With(GaugeId::kWorkerUp, {address}).Set(0);
    metrics.With(CounterId::kWorkerLost, {address});  // there from the start: a rise to 1 is seen as one
    series_.push_back({&metrics.With(HistogramId::kWorkerCallDuration, {address}),
                       &metrics.With(CounterId::kSentBytes, {address}),
                       &metrics.With(CounterId::kReceivedBytes, {address})});
  }
  thread_ = std::thread([this] { Maintain(); });
  retirer_ = std::thread([this] { KeepRetiring(); });
  for (size_t i = 0; i < options.addresses.size(); ++i)
    connectors_.emplace_back([this, i] { KeepConnected(i); });
}

WorkerPool::~WorkerPool() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
  retirer_.join();
  for (std::thread& connector : connectors_) connector.join();
}

void WorkerPool::Maintain() {
  pthread_setname_np(pthread_self(), "worker-pool");
  MutexLock lock(mutex_);
  while (!stop_) {
    lock.Unlock();
    CheckLinks();
    lock.Lock();
    const auto next_look = Clock::now() + kLookInterval;
    while (!stop_ && changed_.WaitUntil(mutex_, next_look)) {
    }
  }
}

// Apart from those who look after the workers: with hundreds of GiB it may take many seconds.
void WorkerPool::KeepRetiring() {
  pthread_setname_np(pthread_self(), "worker-retire");
  MutexLock lock(mutex_);
  while (!stop_) {
    if (retiring_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    lock.Unlock();
    RetireExperts();
    lock.Lock();
    const auto next_look = Clock::now() + kLookInterval;
    while (!stop_ && changed_.WaitUntil(mutex_, next_look)) {
    }
  }
}

void WorkerPool::KeepConnected(size_t index) {
  pthread_setname_np(pthread_self(), "worker-connect");
  MutexLock lock(mutex_);
  while (!stop_) {
    const Worker& worker = workers_[index];
    if (worker.link != nullptr) {
      changed_.Wait(mutex_);
    } else if (const auto retry_at = worker.retry_at; Clock::now() < retry_at) {
      (void)changed_.WaitUntil(mutex_, retry_at);
    } else {
      lock.Unlock();
      TryConnect(index);
      lock.Lock();
    }
  }
}

void WorkerPool::TryConnect(size_t index) {
  const std::string& address = options_.addresses[index];
  absl::StatusOr<std::unique_ptr<WorkerLink>> link = WorkerLink::Connect(address, options_.link);
  const MutexLock lock(mutex_);
  if (!answering_) {  // there is no answer for those who are gone to go on with
    for (Worker& each : workers_)
      if (!each.status.up) each.status.identity.arithmetic.clear();
  }
  Worker& worker = workers_[index];
  const absl::Status fits = link.ok() ? CheckFits((*link)->identity(), index, Statuses()) : link.status();
  if (fits.ok()) {
    worker.link = *std::move(link);
    worker.status.identity = worker.link->identity();
    const std::string& arithmetic = worker.status.identity.arithmetic;
    const std::string before = std::exchange(arithmetic_, arithmetic);
    if (!before.empty() && before != arithmetic) {
      change_ = true;
      LogInfo("worker {} computes with {}, those before with {}: nothing of theirs is gone on with", address,
              arithmetic, before);
    }
    worker.status.up = true;
    worker.status.error.clear();
    worker.up_since = Clock::now();
    worker.refusal = fits;
    worker.refusal_said.clear();
    metrics_.With(GaugeId::kWorkerUp, {address}).Set(1);
    LogInfo("worker {} is up", address);
  } else {
    NoteDown(worker, fits);
  }
  changed_.NotifyAll();
}

void WorkerPool::NoteDown(Worker& worker, const absl::Status& why) {
  const std::string error(why.message());
  const bool refused = absl::IsFailedPrecondition(why);
  worker.status.error = error;
  worker.refusal = refused ? why : absl::OkStatus();
  if (!refused) return PutOff(worker);
  worker.retry_at = Clock::now() + kRefusedInterval;
  // Said once, and not each time that it is asked again.
  if (std::exchange(worker.refusal_said, error) != error)
    LogWarning("worker {} is not used: {}", worker.status.address, error);
}

void WorkerPool::PutOff(Worker& worker) {
  worker.retry_at = Clock::now() + worker.wait;
  worker.wait = std::min(2 * worker.wait, kRetryMax);
}

// Ends sessions whose worker died, and frees the engine from a stream that outlives its deadline.
void WorkerPool::CheckLinks() {
  for (size_t i = 0; i < options_.addresses.size(); ++i) {
    std::shared_ptr<WorkerLink> link;
    bool overdue = false;
    {
      const MutexLock lock(mutex_);
      link = workers_[i].link;
      overdue =
          in_call_ && Clock::now() - watch_since_ > std::chrono::milliseconds(options_.link.call_deadline_ms);
    }
    if (link == nullptr) continue;
    const absl::Status alive = link->Alive();
    if (!alive.ok()) Lose(i, link, alive);  // first, or the engine's call says less when it ends
    if (!overdue && alive.ok()) continue;
    // A call through shared memory ends by itself at its deadline, and the others' sessions go on.
    if (!alive.ok() || !link->identity().shared_memory) link->Abort();
    Release();
  }
}

// A device that waits for a reply has no deadline of its own.
void WorkerPool::Release() {
  const MutexLock lock(mutex_);
  if (release_ != nullptr) release_->store(1);
}

void WorkerPool::Lose(size_t index, const std::shared_ptr<WorkerLink>& link, const absl::Status& why) {
  const MutexLock lock(mutex_);
  Worker& worker = workers_[index];
  if (worker.link != link) return;  // lost and replaced already
  if (auto experts = link->experts(); experts != nullptr) retiring_.push_back(std::move(experts));
  worker.link.reset();
  if (Clock::now() - worker.up_since > kRetryMax) worker.wait = kRetryMin;
  PutOff(worker);
  worker.status.up = false;
  worker.status.error = std::string(why.message());
  metrics_.With(GaugeId::kWorkerUp, {worker.status.address}).Set(0);
  metrics_.With(CounterId::kWorkerLost, {worker.status.address}).Increment();
  LogWarning("worker {} is lost: {}", worker.status.address, worker.status.error);
  changed_.NotifyAll();
}

// Unpinning may wait for the device, and what the device waits for may be this thread's to notice: so only
// while no call is out, and none begins meanwhile.
void WorkerPool::RetireExperts() {
  std::vector<std::shared_ptr<ExpertMemory>> lost;
  {
    const MutexLock lock(mutex_);
    if (in_call_ || retiring_.empty()) return;
    lost.swap(retiring_);
    retiring_now_ = true;
  }
  std::vector<std::shared_ptr<ExpertMemory>> used;
  for (auto& memory : lost)
    if (!memory->Retire()) used.push_back(std::move(memory));  // unpinning many pages takes a while
  const MutexLock lock(mutex_);
  retiring_.insert(retiring_.end(), used.begin(), used.end());
  retiring_now_ = false;
  changed_.NotifyAll();
}

std::vector<std::shared_ptr<ExpertMemory>> WorkerPool::MappedExperts() {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<ExpertMemory>> all(workers_.size());
  for (const Worker& worker : workers_) {
    auto experts = worker.link == nullptr ? nullptr : worker.link->experts();
    if (experts == nullptr) return {};
    all[static_cast<size_t>(worker.status.identity.worker_index)] = std::move(experts);
  }
  return all;
}

bool WorkerPool::AllUp() const {
  for (const Worker& worker : workers_) {
    if (worker.link == nullptr) return false;
  }
  return true;
}

std::string WorkerPool::Missing() const {
  std::string text;
  for (const Worker& worker : workers_) {
    if (worker.link == nullptr)
      text += fmt::format("{}worker {} ({})", text.empty() ? "" : ", ", worker.status.address,
                          worker.status.error);
  }
  return text;
}

absl::Status WorkerPool::Refusal() const {
  for (const Worker& worker : workers_)
    if (!worker.refusal.ok()) return Annotate(worker.refusal, "worker " + worker.status.address);
  return absl::OkStatus();
}

std::vector<WorkerStatus> WorkerPool::Statuses() const {
  std::vector<WorkerStatus> statuses;
  for (const Worker& worker : workers_) statuses.push_back(worker.status);
  return statuses;
}

absl::Status WorkerPool::BeginCall(std::atomic<uint32_t>* release) {
  if (deferred_values_ > 0) {  // of a step that was given up
    DropDeferred();
    EndCall();
  }
  const MutexLock lock(mutex_);
  while (retiring_now_) changed_.Wait(mutex_);
  if (!AllUp()) return absl::UnavailableError("a slice of the experts is missing: " + Missing());
  if (change_) return absl::UnavailableError("the workers compute otherwise than those before");
  answering_ = true;
  // In slice order, whatever the order of the addresses: sums must not depend on it.
  calling_.assign(workers_.size(), {});
  for (size_t i = 0; i < workers_.size(); ++i) {
    const auto slice = static_cast<size_t>(workers_[i].status.identity.worker_index);
    NUMOE_CHECK(slice < calling_.size() && calling_[slice].link == nullptr) << "slice " << slice;
    calling_[slice] = {workers_[i].link, i};
  }
  in_call_ = true;
  release_ = release;
  watch_since_ = call_started_ = wait_started_ = Clock::now();
  return absl::OkStatus();
}

void WorkerPool::Watch(bool waits) {
  const MutexLock lock(mutex_);
  in_call_ = waits;
  watch_since_ = wait_started_ = Clock::now();
}

void WorkerPool::EndCall() {
  calling_.clear();
  deferred_values_ = 0;
  const MutexLock lock(mutex_);
  in_call_ = false;
  watch_since_ = Clock::now();
  release_ = nullptr;
}

absl::StatusOr<DirectStep> WorkerPool::BeginDirect(std::atomic<uint32_t>* release) {
  release->store(0);
  RETURN_IF_ERROR(BeginCall(release));
  DirectStep step{.ports = {}, .first_call_id = call_id_ + 1};
  for (const InFlight& worker : calling_) {
    absl::StatusOr<DirectPort> port = worker.link->BeginDirect();
    if (!port.ok()) {
      for (size_t begun = 0; begun < step.ports.size(); ++begun) calling_[begun].link->EndDirect(0, 0);
      EndCall();
      return port.status();
    }
    step.ports.push_back(*std::move(port));
  }
  return step;
}

absl::Status WorkerPool::EndDirect(int calls, int deferring, const absl::Status& result) {
  call_id_ += static_cast<uint64_t>(calls);
  const double seconds = std::chrono::duration<double>(Clock::now() - call_started_).count();
  for (const InFlight& worker : calling_) {
    worker.link->EndDirect(calls, deferring);
    if (!result.ok()) {
      Lose(worker.worker, worker.link, result);
    } else if (calls > 0) {
      series_[worker.worker].duration->Observe(seconds / calls);
    }
  }
  EndCall();
  if (result.ok()) return result;
  return absl::UnavailableError(fmt::format("expert worker: {}", std::string(result.message())));
}

absl::Status WorkerPool::Start(const LayerCallView& call) {
  RETURN_IF_ERROR(BeginCall(/*release=*/nullptr));
  ++call_id_;
  absl::Status result;
  const double bytes =
      static_cast<double>(RequestBytes(call.tokens, call.experts_per_token, options_.link.hidden_size));
  for (const InFlight& call_to : calling_) {
    if (result.ok()) result = call_to.link->Send(call_id_, call);
    series_[call_to.worker].sent->Increment(bytes);
  }
  if (result.ok()) {
    deferred_values_ = call.deferred_experts > 0 ? call.hidden.size() : 0;
    return result;
  }
  // Some workers have the call and some have not: their sessions are out of step. Drop them all.
  for (const InFlight& call_to : calling_) Lose(call_to.worker, call_to.link, result);
  EndCall();
  return absl::UnavailableError(fmt::format("expert worker: {}", std::string(result.message())));
}

int64_t WorkerPool::LeftMs() const {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - wait_started_);
  return std::max<int64_t>(options_.link.call_deadline_ms - waited.count(), 0);
}

absl::Status WorkerPool::Receive(ReplyPart part, absl::Span<float> out) {
  absl::Status result;
  for (InFlight& call : calling_) {
    if (call.link == nullptr) continue;
    const absl::Status received = call.link->Receive(call_id_, part, LeftMs(), out);
    if (received.ok()) {
      if (part == ReplyPart::kImmediate) {  // the other one may lie there for long, and nobody waits for it
        series_[call.worker].duration->Observe(
            std::chrono::duration<double>(Clock::now() - call_started_).count());
      }
      series_[call.worker].received->Increment(static_cast<double>(out.size() * sizeof(float)));
    } else {
      Lose(call.worker, call.link, received);
      call.link = nullptr;
      if (result.ok()) result = received;
    }
  }
  if (!result.ok())
    return absl::UnavailableError(fmt::format("expert worker: {}", std::string(result.message())));
  return absl::OkStatus();
}

absl::Status WorkerPool::Finish(absl::Span<float> out) {
  absl::Status result = Receive(ReplyPart::kImmediate, out);
  if (result.ok() && deferred_values_ > 0) {
    Watch(false);  // the engine goes on meanwhile
    return result;
  }
  if (deferred_values_ > 0) DropDeferred();
  EndCall();
  return result;
}

absl::Status WorkerPool::FinishDeferred(absl::Span<float> out) {
  NUMOE_CHECK_EQ(out.size(), deferred_values_);
  Watch(true);
  absl::Status result = Receive(ReplyPart::kDeferred, out);
  EndCall();
  return result;
}

void WorkerPool::DropDeferred() {
  Watch(true);
  dropped_.resize(deferred_values_);
  (void)Receive(ReplyPart::kDeferred, absl::MakeSpan(dropped_));  // who fails is lost
}

void WorkerPool::AnswersEnded() {
  const MutexLock lock(mutex_);
  answering_ = false;
}

bool WorkerPool::TakeChange() {
  const MutexLock lock(mutex_);
  return std::exchange(change_, false);
}

absl::Status WorkerPool::AwaitReady(int64_t deadline_ms) {
  const MutexLock lock(mutex_);
  const auto deadline = Clock::now() + std::chrono::milliseconds(deadline_ms);
  while (!AllUp() && changed_.WaitUntil(mutex_, deadline)) {
  }
  if (AllUp()) return absl::OkStatus();
  return absl::DeadlineExceededError("experts are missing: " + Missing());
}

bool WorkerPool::Ready() const {
  const MutexLock lock(mutex_);
  return AllUp();
}

std::vector<WorkerStatus> WorkerPool::Workers() const {
  const MutexLock lock(mutex_);
  return Statuses();
}

CallActivity WorkerPool::Activity() const {
  const MutexLock lock(mutex_);
  return {.in_call = in_call_, .seconds = std::chrono::duration<double>(Clock::now() - watch_since_).count()};
}

absl::StatusOr<ExpertRows> WorkerPool::CountedRows() const {
  std::vector<std::shared_ptr<WorkerLink>> links;
  {
    const MutexLock lock(mutex_);
    for (const Worker& worker : workers_) {
      if (worker.link != nullptr) links.push_back(worker.link);
    }
  }
  ExpertRows all;
  absl::Status failure = absl::UnavailableError("no worker is connected");
  for (const auto& link : links) {
    const absl::StatusOr<ExpertRows> one = link->CountedRows(kCountedRowsDeadlineMs);
    if (!one.ok()) {
      failure = one.status();
    } else if (!all.rows.empty() && one->layers != all.layers) {
      failure = absl::InternalError(
          fmt::format("statistics of {} layers, expected {} as another worker has", one->layers, all.layers));
    } else {
      MergeExpertRows(*one, link->identity().slice_by_expert, all);
    }
  }
  if (all.rows.empty())
    return absl::UnavailableError(
        fmt::format("no worker tells its statistics: {}", std::string(failure.message())));
  return all;
}

}  // namespace numoe
