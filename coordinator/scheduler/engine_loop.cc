#include "coordinator/scheduler/engine_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/sampling/sampler.h"
#include "coordinator/scheduler/block_tables.h"
#include "coordinator/scheduler/step_pacer.h"

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
        tables_(blocks_, options.prefix_caching, options.limits.fixed_chunk_tokens),
        pacer_(options.decode_stretch_max),
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

  void ResetPrefixCache() override {
    const std::lock_guard lock(mutex_);
    reset_prefixes_ = true;
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
      if ((!running_.empty() || !waiting_.empty()) && WorkersReady()) RunStep();
      PublishStats();
    }
    for (auto* list : {&running_, &waiting_}) {
      for (const SequencePtr& s : *list) End(*s, FinishReason::kCancelled);
    }
    Settle();
  }

  // Waits for something to do; false when the engine stops.
  bool TakeMail() {
    std::set<SequenceId> cancelled;
    {
      std::unique_lock lock(mutex_);
      if (running_.empty() && waiting_.empty() && submitted_.empty()) {
        blocks_.CheckInvariants();
        NUMOE_CHECK_EQ(blocks_.used_blocks(), 0);
        wake_.wait(lock,
                   [&] { return stop_ || !submitted_.empty() || !cancelled_.empty() || reset_prefixes_; });
      }
      if (std::exchange(reset_prefixes_, false)) blocks_.ForgetAll();
      for (SequencePtr& sequence : submitted_) waiting_.push_back(std::move(sequence));
      submitted_.clear();
      cancelled.swap(cancelled_);
      if (stop_) return false;
    }
    for (auto* list : {&running_, &waiting_}) {
      for (const SequencePtr& s : *list) {
        if (cancelled.count(s->id) > 0) End(*s, FinishReason::kCancelled);
      }
    }
    Settle();
    return true;
  }

  // After a lost step: waits a slice for the backend.
  bool WorkersReady() {
    if (!lost_since_) return true;
    const absl::Status status = experts_.AwaitReady(kAwaitSliceMs);
    if (!status.ok()) EndAllIfTooLate(status);
    return status.ok();
  }

  void EndAllIfTooLate(const absl::Status& status) {
    if (SecondsSince(*lost_since_) * 1e3 < static_cast<double>(options_.worker_deadline_ms)) return;
    EndAll(absl::UnavailableError(fmt::format("no expert worker for {} ms: {}", options_.worker_deadline_ms,
                                              std::string(status.message()))));
  }

  void RunStep() {
    PlannerLimits limits = options_.limits;
    if (!options_.deterministic)
      limits.mixed_prompt_tokens = pacer_.PromptTokens(CountDecoding(), limits.step_tokens);
    const StepPlan plan = PlanNextStep(RunningViews(), WaitingViews(), blocks_.free_blocks(), limits);
    CarryOut(plan);
    if (plan.parts.empty()) {
      // Nothing fits although something runs: the planner promises progress of the oldest one.
      NUMOE_CHECK(!plan.preempted.empty()) << "no progress: " << plan.ToString();
      return Settle();
    }
    StepBatch batch;
    batch.deterministic = options_.deterministic;
    int tokens = 0, decodes = 0;
    for (const PlannedPart& part : plan.parts) {
      const Sequence& s = *running_[part.sequence];
      batch.sequences.push_back(
          {.tokens = absl::MakeConstSpan(s.tokens).subspan(s.cached, part.tokens),
           .position = s.cached,
           .blocks = s.blocks,
           .logits_last = s.cached + part.tokens == static_cast<int64_t>(s.tokens.size()) ? 1 : 0});
      tokens += part.tokens;
      decodes += s.uncached() == 1 ? 1 : 0;
    }
    const Clock::time_point start = Clock::now();
    const absl::StatusOr<StepLogits> logits = model_.Forward(batch);
    if (absl::IsUnavailable(logits.status())) {
      // Nothing was sampled and no `cached` moved: the step is planned again when the workers are back.
      if (!lost_since_) lost_since_ = start;
      metrics_.Add(CounterId::kStepsReplayed);
      Settle();
      return EndAllIfTooLate(logits.status());
    }
    if (!logits.ok()) return EndAll(logits.status());
    lost_since_.reset();
    const double seconds = SecondsSince(start);
    pacer_.Record(decodes, tokens - decodes, seconds);
    metrics_.Observe(HistogramId::kStepDuration, seconds);
    metrics_.Observe(HistogramId::kStepTokens, tokens);
    metrics_.Add(CounterId::kSteps);
    ++steps_;
    Sample(plan, *logits);
  }

  int CountDecoding() const {
    return static_cast<int>(std::count_if(running_.begin(), running_.end(),
                                          [](const SequencePtr& s) { return s->uncached() == 1; }));
  }

  std::vector<SequenceView> RunningViews() const {
    // What a step can need at most; with so many free ones nobody is preempted, and nobody asks what is
    // shared.
    const bool plenty = blocks_.free_blocks() >= 2 * static_cast<int>(running_.size()) +
                                                     blocks_.BlocksFor(options_.limits.step_tokens);
    std::vector<SequenceView> views;
    for (const SequencePtr& s : running_) {
      views.push_back({.tokens = static_cast<int64_t>(s->tokens.size()),
                       .cached = s->cached,
                       .blocks = static_cast<int>(s->blocks.size()),
                       .shared = plenty ? 0 : tables_.SharedBlocks(*s)});
    }
    return views;
  }

  // Of those that could be admitted now.
  std::vector<SequenceView> WaitingViews() {
    std::vector<SequenceView> views;
    const size_t room = static_cast<size_t>(options_.limits.sequences_max) - running_.size();
    for (size_t i = 0; i < std::min(room, waiting_.size()); ++i) {
      Sequence& s = *waiting_[i];
      tables_.FindPrefix(s);
      const auto count = static_cast<int>(s.prefixes.size());
      views.push_back({.tokens = static_cast<int64_t>(s.tokens.size()),
                       .cached = int64_t{count} * blocks_.block_tokens(),
                       .blocks = count,
                       .idle = tables_.IdleBlocks(s)});
    }
    return views;
  }

  void CarryOut(const StepPlan& plan) {
    // The parts' indices count the running list as planned: preempted sequences stay in it until Settle.
    for (const int index : plan.preempted) {
      tables_.Release(*running_[index]);
      running_[index]->preempted = true;
      metrics_.Add(CounterId::kPreemptions);
    }
    for (int i = 0; i < plan.admitted; ++i) {
      Sequence& s = *waiting_.front();
      metrics_.Observe(HistogramId::kQueueWait, SecondsSince(s.arrived));
      tables_.TakePrefix(s);  // for all of them before a block is given out, which can end a prefix
      metrics_.Add(CounterId::kPrefixQueryTokens, static_cast<double>(s.tokens.size()));
      metrics_.Add(CounterId::kPrefixHitTokens, static_cast<double>(s.cached));
      running_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    for (const PlannedPart& part : plan.parts) {
      Sequence& s = *running_[part.sequence];
      tables_.Grow(s, s.cached + part.tokens);
    }
    CountWaiting(-plan.admitted);
  }

  void Sample(const StepPlan& plan, const StepLogits& logits) {
    int row = 0;
    for (const PlannedPart& part : plan.parts) {
      Sequence& s = *running_[part.sequence];
      s.cached += part.tokens;
      if (s.uncached() > 0) {  // mid-prompt
        tables_.Publish(s);
        continue;
      }
      const absl::StatusOr<TokenId> token =
          Draw(s, logits.values.subspan(static_cast<size_t>(row) * logits.vocab_size, logits.vocab_size));
      ++row;
      if (token.ok()) {
        tables_.Publish(s);
        Emit(s, *token);
      } else {
        tables_.Distrust(s);  // rows behind logits that are no numbers may be none either
        End(s, FinishReason::kError, token.status());
      }
    }
    Settle();
  }

  absl::StatusOr<TokenId> Draw(Sequence& s, absl::Span<const float> logits) {
    const SamplingParams& p = s.request.sampling;
    SamplingChoice choice{.temperature = p.temperature,
                          .top_p = p.top_p,
                          .top_k = p.top_k,
                          .min_p = p.min_p,
                          .seed = s.seed,
                          .position = static_cast<int64_t>(s.tokens.size()),
                          .allowed = {}};
    TokenConstraint* const constraint = s.request.constraint.get();
    if (constraint != nullptr) {
      ASSIGN_OR_RETURN(choice.allowed, constraint->Mask());
    }
    ASSIGN_OR_RETURN(const TokenId token, sampler_.Sample(logits, choice));
    if (constraint != nullptr) constraint->Accept(token);
    return token;
  }

  // Hands a token out; the last one goes with the ending.
  void Emit(Sequence& s, TokenId token) {
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
    const bool ends =
        !p.ignore_eos || s.request.constraint != nullptr;  // nothing can follow what is complete
    const bool stopped = is_in(p.stop_token_ids) || (ends && is_in(options_.eos_token_ids));
    if (stopped || s.generated() >= p.max_tokens) {
      End(s, stopped ? FinishReason::kStop : FinishReason::kLength);
      s.ending->tokens = {token};
    } else {
      s.request.on_event({.sequence = s.id,
                          .tokens = {token},
                          .cached_prompt_tokens = s.reused.value_or(0),
                          .finish = FinishReason::kNone,
                          .error = {}});
    }
  }

  static void End(Sequence& s, FinishReason reason, const absl::Status& error = absl::OkStatus()) {
    s.ending = TokenEvent{.sequence = s.id,
                          .tokens = {},
                          .cached_prompt_tokens = s.reused.value_or(0),
                          .finish = reason,
                          .error = error};
  }

  void EndAll(const absl::Status& error) {
    for (auto* list : {&running_, &waiting_}) {
      for (const SequencePtr& s : *list) End(*s, FinishReason::kError, error);
    }
    lost_since_.reset();
    Settle();
  }

  // Lets go of the sequences that ended, and puts the preempted ones back to the head of the queue.
  void Settle() {
    for (size_t i = running_.size(); i-- > 0;) {
      if (running_[i]->ending) {
        Finish(Take(running_, i));
      } else if (running_[i]->preempted) {
        running_[i]->preempted = false;
        waiting_.push_front(Take(running_, i));
        CountWaiting(1);
      }
    }
    for (size_t i = waiting_.size(); i-- > 0;) {
      if (!waiting_[i]->ending) continue;
      Finish(Take(waiting_, i));
      CountWaiting(-1);
    }
  }

  static SequencePtr Take(std::deque<SequencePtr>& list, size_t index) {
    SequencePtr taken = std::move(list[index]);
    list.erase(list.begin() + static_cast<int64_t>(index));
    return taken;
  }

  void Finish(SequencePtr s) {
    tables_.Release(*s);
    metrics_.With(CounterId::kRequestsFinished, {ReasonName(s->ending->finish)}).Increment();
    metrics_.Observe(HistogramId::kRequestDuration, SecondsSince(s->arrived));
    if (s->ending->finish != FinishReason::kCancelled) s->request.on_event(*s->ending);
    const std::lock_guard lock(mutex_);
    if (--live_ == 0) idle_.notify_all();
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
              .kv_blocks_idle = blocks_.idle_blocks(),
              .kv_blocks_total = blocks_.total_blocks(),
              .steps = steps_};
  }

  Model& model_;
  ExpertBackend& experts_;
  const EngineOptions options_;
  Metrics& metrics_;

  // Engine thread only.
  BlockPool blocks_;
  BlockTables tables_;
  StepPacer pacer_;
  Sampler sampler_;
  std::deque<SequencePtr> running_;              // in order of admission
  std::deque<SequencePtr> waiting_;              // in order of arrival, preempted ones first
  std::optional<Clock::time_point> lost_since_;  // begin of the first of the steps lost in a row
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
  bool reset_prefixes_ ABSL_GUARDED_BY(mutex_) = false;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> StartEngine(Model& model, ExpertBackend& experts, const EngineOptions& options,
                                    Metrics& metrics) {
  return std::make_unique<EngineLoop>(model, experts, options, metrics);
}

}  // namespace numoe
