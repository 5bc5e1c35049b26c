#include "coordinator/scheduler/engine_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "coordinator/kvcache/block_pool.h"
#include "coordinator/sampling/sampler.h"
#include "coordinator/scheduler/sequence.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;
using SequencePtr = std::unique_ptr<Sequence>;

// How long the engine waits for a lost worker before it looks at its mailbox again.
constexpr int64_t kAwaitSliceMs = 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const char* ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    default:
      return "error";
  }
}

class EngineLoop final : public Engine {
 public:
  EngineLoop(Model& model, ExpertBackend& experts, const EngineOptions& options, Metrics& metrics)
      : model_(model),
        experts_(experts),
        options_(options),
        metrics_(metrics),
        blocks_(options.kv_blocks, options.limits.block_tokens),
        sampler_(options.vocab) {
    metrics_.Set(GaugeId::kKvBlocksCapacity, blocks_.total_blocks());
    thread_ = std::thread([this] { Loop(); });
  }

  ~EngineLoop() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  bool HasRoom() const override {
    const std::lock_guard lock(mutex_);
    return !draining_ && waiting_count_ < options_.queue_max;
  }

  absl::StatusOr<SequenceId> Submit(GenerateRequest request) override {
    const auto prompt = static_cast<int64_t>(request.prompt.size());
    NUMOE_CHECK_GT(prompt, 0);
    const int64_t longest = std::min(
        options_.max_model_len, static_cast<int64_t>(blocks_.total_blocks()) * blocks_.block_tokens() - 1);
    if (prompt + 1 > longest) {
      return absl::InvalidArgumentError(fmt::format(
          "the prompt has {} tokens, but the context holds {} including the answer", prompt, longest));
    }
    auto sequence = std::make_unique<Sequence>();
    sequence->request = std::move(request);
    SamplingParams& sampling = sequence->request.sampling;
    sampling.max_tokens = static_cast<int>(std::min<int64_t>(sampling.max_tokens, longest - prompt));
    sequence->tokens = sequence->request.prompt;
    sequence->prompt_tokens = prompt;
    sequence->arrived = sequence->last_token = Clock::now();
    const std::lock_guard lock(mutex_);
    if (draining_ || stop_) return absl::UnavailableError("the server is draining and takes no new requests");
    if (waiting_count_ >= options_.queue_max) {
      metrics_.Add(CounterId::kRequestsRejected);
      return absl::ResourceExhaustedError(
          fmt::format("the queue is full ({} requests waiting)", waiting_count_));
    }
    sequence->seed = sampling.seed.value_or(random_());
    const SequenceId id = sequence->id = ++last_id_;
    ++waiting_count_;
    ++live_;
    submitted_.push_back(std::move(sequence));
    metrics_.Add(CounterId::kTokensPrompt, static_cast<double>(prompt));
    wake_.notify_all();
    return id;
  }

  void Cancel(SequenceId sequence) override {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(sequence);
    wake_.notify_all();
  }

  EngineStats Stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting = waiting_count_;
    stats.ready = experts_.Ready();
    return stats;
  }

  bool Drain(int64_t deadline_ms) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    return idle_.wait_for(lock, std::chrono::milliseconds(deadline_ms), [&] { return live_ == 0; });
  }

 private:
  void Loop() {
    pthread_setname_np(pthread_self(), "engine");
    while (TakeMail()) {
      if (!running_.empty() || !waiting_.empty()) RunStep();
      PublishStats();
    }
    for (auto* list : {&running_, &waiting_}) {
      while (!list->empty()) Finish(*list, 0, FinishReason::kCancelled, absl::OkStatus());
    }
  }

  // Waits for something to do; false when the engine stops.
  bool TakeMail() {
    std::set<SequenceId> cancelled;
    {
      std::unique_lock lock(mutex_);
      if (running_.empty() && waiting_.empty() && submitted_.empty()) {
        blocks_.CheckInvariants();
        NUMOE_CHECK_EQ(blocks_.used_blocks(), 0);
        wake_.wait(lock, [&] { return stop_ || !submitted_.empty() || !cancelled_.empty(); });
      }
      for (SequencePtr& sequence : submitted_) waiting_.push_back(std::move(sequence));
      submitted_.clear();
      cancelled.swap(cancelled_);
      if (stop_) return false;
    }
    for (auto* list : {&running_, &waiting_}) {
      for (size_t i = list->size(); i-- > 0;) {
        if (cancelled.count((*list)[i]->id) > 0) Finish(*list, i, FinishReason::kCancelled, absl::OkStatus());
      }
    }
    return true;
  }

  void RunStep() {
    const StepPlan plan =
        PlanNextStep(Views(running_), Views(waiting_), blocks_.free_blocks(), options_.limits);
    CarryOut(plan);
    if (plan.parts.empty()) {
      // Nothing fits although something runs: the planner promises progress of the oldest one.
      NUMOE_CHECK(!plan.preempted.empty()) << "no progress: " << plan.ToString();
      return;
    }
    StepBatch batch;
    batch.deterministic = options_.deterministic;
    int tokens = 0;
    for (const PlannedPart& part : plan.parts) {
      const Sequence& s = *running_[part.sequence];
      batch.sequences.push_back(
          {.tokens = absl::MakeConstSpan(s.tokens).subspan(s.cached, part.tokens),
           .position = s.cached,
           .blocks = s.blocks,
           .logits_last = s.cached + part.tokens == static_cast<int64_t>(s.tokens.size()) ? 1 : 0});
      tokens += part.tokens;
    }
    const Clock::time_point start = Clock::now();
    const absl::StatusOr<StepLogits> logits = ForwardUntilDone(batch);
    if (!logits.ok()) return FailAll(logits.status());
    metrics_.Observe(HistogramId::kStepDuration, SecondsSince(start));
    metrics_.Observe(HistogramId::kStepTokens, tokens);
    metrics_.Add(CounterId::kSteps);
    ++steps_;
    Sample(plan, *logits);
  }

  static std::vector<SequenceView> Views(const std::deque<SequencePtr>& list) {
    std::vector<SequenceView> views;
    for (const SequencePtr& s : list)
      views.push_back(
          {static_cast<int64_t>(s->tokens.size()), s->cached, static_cast<int>(s->blocks.size())});
    return views;
  }

  void CarryOut(const StepPlan& plan) {
    // Indices of parts count the running list as planned; preempted sequences have no part, and they are
    // removed below only after blocks were given out, so that the indices stay right.
    for (const int index : plan.preempted) {
      ReleaseBlocks(*running_[index]);
      running_[index]->cached = 0;
      metrics_.Add(CounterId::kPreemptions);
    }
    for (int i = 0; i < plan.admitted; ++i) {
      metrics_.Observe(HistogramId::kQueueWait, SecondsSince(waiting_.front()->arrived));
      running_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    for (const PlannedPart& part : plan.parts) {
      Sequence& s = *running_[part.sequence];
      while (static_cast<int>(s.blocks.size()) < blocks_.BlocksFor(s.cached + part.tokens)) {
        const auto block = blocks_.Allocate(s.id);
        NUMOE_CHECK(block.has_value()) << "the plan gave out more blocks than there are: " << plan.ToString();
        s.blocks.push_back(*block);
      }
    }
    CountWaiting(-plan.admitted);
    preempted_now_ = plan.preempted;
  }

  // Runs the same step until the workers answer it, or fails after the deadline.
  absl::StatusOr<StepLogits> ForwardUntilDone(const StepBatch& batch) {
    const Clock::time_point lost_at = Clock::now();
    while (true) {
      absl::StatusOr<StepLogits> logits = model_.Forward(batch);
      if (logits.ok() || !absl::IsUnavailable(logits.status())) return logits;
      while (!experts_.AwaitReady(kAwaitSliceMs).ok()) {
        if (SecondsSince(lost_at) * 1e3 > static_cast<double>(options_.worker_deadline_ms)) {
          return absl::UnavailableError(fmt::format("no expert worker for {} ms: {}",
                                                    options_.worker_deadline_ms,
                                                    std::string(logits.status().message())));
        }
        const std::lock_guard lock(mutex_);
        if (stop_) return absl::UnavailableError("the server stops");
      }
      metrics_.Add(CounterId::kStepsReplayed);
    }
  }

  void Sample(const StepPlan& plan, const StepLogits& logits) {
    std::vector<size_t> finished;
    int row = 0;
    for (const PlannedPart& part : plan.parts) {
      Sequence& s = *running_[part.sequence];
      s.cached += part.tokens;
      if (s.uncached() > 0) continue;  // mid-prompt
      const SamplingParams& p = s.request.sampling;
      const absl::StatusOr<TokenId> token = sampler_.Sample(
          logits.values.subspan(static_cast<size_t>(row) * logits.vocab_size, logits.vocab_size),
          {.temperature = p.temperature,
           .top_p = p.top_p,
           .top_k = p.top_k,
           .min_p = p.min_p,
           .seed = s.seed,
           .position = static_cast<int64_t>(s.tokens.size())});
      ++row;
      if (!token.ok()) {
        errors_[s.id] = token.status();
        finished.push_back(static_cast<size_t>(part.sequence));
      } else if (Emit(s, *token)) {
        finished.push_back(static_cast<size_t>(part.sequence));
      }
    }
    RemovePreempted(finished);
  }

  // Hands a token out; true if it was the last one.
  bool Emit(Sequence& s, TokenId token) {
    const bool first = s.generated() == 0;
    s.tokens.push_back(token);
    metrics_.Add(CounterId::kTokensGenerated);
    metrics_.Observe(first ? HistogramId::kTimeToFirstToken : HistogramId::kInterTokenLatency,
                     SecondsSince(first ? s.arrived : s.last_token));
    s.last_token = Clock::now();
    const auto is_in = [token](const std::vector<TokenId>& ids) {
      return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    const SamplingParams& p = s.request.sampling;
    TokenEvent event{
        .sequence = s.id, .tokens = {token}, .finish = FinishReason::kNone, .error = absl::OkStatus()};
    if (is_in(p.stop_token_ids) || (!p.ignore_eos && is_in(options_.eos_token_ids))) {
      event.finish = FinishReason::kStop;
    } else if (s.generated() >= p.max_tokens) {
      event.finish = FinishReason::kLength;
    }
    if (event.finish == FinishReason::kNone) {
      s.request.on_event(event);
      return false;
    }
    endings_[s.id] = std::move(event);
    return true;
  }

  // Ends the finished sequences and moves the preempted ones to the head of the queue; highest index first.
  void RemovePreempted(std::vector<size_t> finished) {
    std::vector<std::pair<size_t, bool>> removals;  // (index, finished)
    for (const size_t index : finished) removals.emplace_back(index, true);
    for (const int index : preempted_now_) removals.emplace_back(static_cast<size_t>(index), false);
    preempted_now_.clear();
    std::sort(removals.rbegin(), removals.rend());
    for (const auto& [index, is_finished] : removals) {
      if (is_finished) {
        const SequenceId id = running_[index]->id;
        const auto error = errors_.find(id);
        if (error != errors_.end()) {
          const absl::Status status = error->second;
          errors_.erase(error);
          Finish(running_, index, FinishReason::kError, status);
        } else {
          Finish(running_, index, endings_[id].finish, absl::OkStatus());
        }
      } else {
        waiting_.push_front(std::move(running_[index]));
        running_.erase(running_.begin() + static_cast<int64_t>(index));
        CountWaiting(1);
      }
    }
  }

  void FailAll(const absl::Status& status) {
    preempted_now_.clear();
    for (auto* list : {&running_, &waiting_}) {
      while (!list->empty()) Finish(*list, 0, FinishReason::kError, status);
    }
  }

  void Finish(std::deque<SequencePtr>& list, size_t index, FinishReason reason, const absl::Status& error) {
    const SequencePtr s = std::move(list[index]);
    list.erase(list.begin() + static_cast<int64_t>(index));
    ReleaseBlocks(*s);
    TokenEvent event{.sequence = s->id, .tokens = {}, .finish = reason, .error = error};
    if (const auto ending = endings_.find(s->id); ending != endings_.end()) {
      event = std::move(ending->second);
      endings_.erase(ending);
    }
    metrics_.With(CounterId::kRequestsFinished, {ReasonName(event.finish)}).Increment();
    metrics_.Observe(HistogramId::kRequestDuration, SecondsSince(s->arrived));
    if (reason != FinishReason::kCancelled) s->request.on_event(event);
    if (&list == &waiting_) CountWaiting(-1);
    const std::lock_guard lock(mutex_);
    if (--live_ == 0) idle_.notify_all();
  }

  void ReleaseBlocks(Sequence& s) {
    for (const KvBlockId block : s.blocks) blocks_.Free(block, s.id);
    s.blocks.clear();
  }

  void CountWaiting(int change) {
    const std::lock_guard lock(mutex_);
    waiting_count_ += change;
  }

  void PublishStats() {
    metrics_.Set(GaugeId::kRequestsRunning, static_cast<double>(running_.size()));
    metrics_.Set(GaugeId::kRequestsWaiting, static_cast<double>(waiting_.size()));
    metrics_.Set(GaugeId::kKvBlocksUsed, blocks_.used_blocks());
    metrics_.Set(GaugeId::kKvUsage, static_cast<double>(blocks_.used_blocks()) / blocks_.total_blocks());
    const std::lock_guard lock(mutex_);
    stats_ = {.running = static_cast<int>(running_.size()),
              .kv_blocks_used = blocks_.used_blocks(),
              .kv_blocks_total = blocks_.total_blocks(),
              .steps = steps_};
  }

  Model& model_;
  ExpertBackend& experts_;
  const EngineOptions options_;
  Metrics& metrics_;

  // Engine thread only.
  BlockPool blocks_;
  Sampler sampler_;
  std::deque<SequencePtr> running_;  // in order of admission
  std::deque<SequencePtr> waiting_;  // in order of arrival, preempted ones first
  std::vector<int> preempted_now_;   // indices in running_, between plan and removal
  std::map<SequenceId, TokenEvent> endings_;
  std::map<SequenceId, absl::Status> errors_;
  uint64_t steps_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<SequencePtr> submitted_ ABSL_GUARDED_BY(mutex_);
  std::set<SequenceId> cancelled_ ABSL_GUARDED_BY(mutex_);
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  SequenceId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_count_ ABSL_GUARDED_BY(mutex_) = 0;
  int live_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> StartEngine(Model& model, ExpertBackend& experts, const EngineOptions& options,
                                    Metrics& metrics) {
  return std::make_unique<EngineLoop>(model, experts, options, metrics);
}

}  // namespace numoe
