#include "coordinator/engine/scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/engine/scheduler/request_metrics.h"

namespace numoe::engine {
namespace {

// How long the engine waits for a lost worker before it checks its inbox again.
constexpr int64_t kAwaitSliceMs = 20;

const char* ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
    case FinishReason::kNone:
      break;
  }
  NUMOE_CHECK(false) << "a sequence that has not ended has no finish reason";
  return "";
}

bool Contains(const std::vector<TokenId>& ids, TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

SequenceLimits SequenceLimitsOf(const EngineOptions& options) {
  const int64_t rows = int64_t{options.kv_blocks} * options.limits.block_tokens;
  NUMOE_CHECK(options.vocab > 0 && options.kv_blocks > 0 && options.queue_max > 0);
  return {.tokens_max = std::min(options.max_model_len, rows - 1),
          .vocab = options.vocab,
          .eos_token_ids = options.eos_token_ids};
}

}  // namespace

Scheduler::Scheduler(execution::Model& model, execution::ExpertBackend& experts, const EngineOptions& options,
                     Metrics& metrics)
    : model_(model),
      experts_(experts),
      options_(options),
      metrics_(metrics),
      sequence_limits_(SequenceLimitsOf(options)),
      blocks_(options.kv_blocks, options.limits.block_tokens),
      tables_(blocks_, options.prefix_caching, options.limits.fixed_chunk_tokens),
      pacer_(options.decode_stretch_max),
      drawer_(options.vocab),
      filler_(drawer_, options.deterministic),
      slots_(options.limits.sequences_max) {
  NUMOE_CHECK_LE(options.limits.fixed_chunk_tokens, options.limits.prompt_logit_rows)
      << "a whole chunk of a prompt is computed in one step";
  metrics_.Set(GaugeId::kKvBlocksCapacity, blocks_.total_blocks());
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled, FinishReason::kError})
    metrics_.With(CounterId::kRequestsFinished, {ReasonName(reason)});
}

void Scheduler::Add(SequencePtr sequence) {
  NUMOE_CHECK(sequence->id > 0 && sequence->tokens_max <= sequence_limits_.tokens_max);
  ++live_;
  deadlines_ += sequence->request.deadline ? 1 : 0;
  Queue(std::move(sequence));
}

void Scheduler::Queue(SequencePtr s) {
  waiting_.Add(std::move(s));
  waiting_count_ = waiting_.size();
}

void Scheduler::Cancel(const absl::flat_hash_set<SequenceId>& sequences) {
  if (sequences.empty()) return;
  ForEach([&](Sequence& s) {
    if (sequences.contains(s.id)) End(s, FinishReason::kCancelled);
  });
  RemoveFinished();
}

void Scheduler::CancelAll() {
  ForEach([&](Sequence& s) { End(s, FinishReason::kCancelled); });
  RemoveFinished();
}

void Scheduler::ForEach(absl::FunctionRef<void(Sequence&)> visit) {
  for (const SequencePtr& s : running_) visit(*s);
  waiting_.ForEach(visit);
}

void Scheduler::CheckIdle() const {
  blocks_.CheckInvariants();
  NUMOE_CHECK_EQ(blocks_.used_blocks(), 0);
  NUMOE_CHECK(idle() && live_ == 0 && deadlines_ == 0) << live_ << " sequences";
}

EngineStats Scheduler::Stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<int>(running_.size());
  stats.waiting = waiting_.size();
  stats.kv_blocks_used = blocks_.used_blocks();
  stats.kv_blocks_idle = blocks_.idle_blocks();
  stats.kv_blocks_total = blocks_.total_blocks();
  return stats;
}

void Scheduler::Turn() {
  if (deadlines_ > 0) EndExpired();
  if (!idle() && WorkersReady()) RunStep();
}

void Scheduler::EndExpired() {
  const EngineClock::time_point now = options_.now();
  ForEach([&](Sequence& s) {
    if (!s.request.deadline || *s.request.deadline > now) return;
    End(s, FinishReason::kError,
        absl::DeadlineExceededError(fmt::format("the request's deadline passed after {} of at most {} tokens",
                                                s.generated(), s.tokens_max - s.prompt_tokens)));
  });
  RemoveFinished();
}

// After a lost step, waits at most kAwaitSliceMs for the backend. Returns whether a step can run.
bool Scheduler::WorkersReady() {
  if (!lost_since_) return true;
  const absl::Status status = experts_.AwaitReady(kAwaitSliceMs);
  if (!status.ok()) EndAllIfTooLate(status);
  return status.ok();
}

void Scheduler::EndAllIfTooLate(const absl::Status& status) {
  if (SecondsSince(*lost_since_) * 1e3 < static_cast<double>(options_.worker_deadline_ms)) return;
  EndAll(absl::UnavailableError(fmt::format("no expert worker for {} ms: {}", options_.worker_deadline_ms,
                                            std::string(status.message()))));
  experts_.OnIdle();
}

// The workers compute in other numeric formats than before, so everything is computed again from its
// beginning.
void Scheduler::RecomputeAll() {
  ResetPrefixCache("");
  for (const SequencePtr& s : running_) Preempt(*s);
  RemoveFinished();
}

void Scheduler::RunStep() {
  if (experts_.ConsumeFormatChange()) RecomputeAll();
  if (Sequence* last = slots_.ToGiveUp(running_, waiting_, options_.now())) {
    Preempt(*last);
    RemoveFinished();
  }
  const StepPlan plan = Plan();
  ExecutePlan(plan);
  if (plan.parts.empty()) {
    // No part fits although sequences run: the planner has then preempted some, so that the first one fits
    // next time.
    NUMOE_CHECK(!plan.preempted.empty()) << "no progress: " << plan.ToString();
    return RemoveFinished();
  }
  const execution::StepBatch& batch = filler_.Fill(plan.parts, running_, model_.CanDraw());
  const EngineClock::time_point start = options_.now();
  const absl::StatusOr<execution::StepLogits> logits = model_.Forward(batch);
  if (absl::IsUnavailable(logits.status())) return DropStep(logits.status(), start);
  if (!logits.ok()) return EndAll(logits.status());
  lost_since_.reset();
  RecordStep(plan, start);
  Sample(plan, *logits);
  RemoveFinished();
}

StepPlan Scheduler::Plan() {
  PlannerLimits limits = options_.limits;
  if (!options_.deterministic)
    limits.mixed_prompt_tokens = pacer_.PromptTokens(CountDecoding(running_), limits.step_tokens);
  const TenantLines lines = waiting_.Lines();
  shares_.SetActive(ActiveTenants(running_, lines));
  const auto view = [this](int tenant, int i) {
    return ViewWaiting(waiting_.At(tenant, i), tables_, blocks_);
  };
  const int kept = slots_.Kept(running_, lines, options_.now());
  return PlanNextStep(ViewRunning(running_, tables_, blocks_, limits.step_tokens),
                      {.lines = lines, .view = view, .kept = kept}, blocks_.free_blocks(), limits, shares_);
}

// The sequence leaves the running list in RemoveFinished.
void Scheduler::Preempt(Sequence& s) {
  NUMOE_CHECK(!s.preempted && !s.ending) << "sequence " << s.id;
  tables_.Release(s);
  s.preempted = true;
  ++stats_.preemptions;
  metrics_.Add(CounterId::kPreemptions);
}

void Scheduler::ExecutePlan(const StepPlan& plan) {
  // The parts' indices refer to the running list as planned, so preempted sequences stay in it until
  // RemoveFinished.
  for (const int index : plan.preempted) Preempt(*running_[static_cast<size_t>(index)]);
  for (const int tenant : plan.admitted) {
    running_.push_back(waiting_.TakeFirst(tenant));
    running_changed_ = true;
    Sequence& s = *running_.back();
    const bool before = s.generated() > 0 || s.admitted != std::chrono::steady_clock::time_point();
    if (!before) {  // a preempted sequence has waited in the queue as a new one only once
      s.admitted = options_.now();
      metrics_.Observe(HistogramId::kQueueWait, SecondsSince(s.arrived));
    }
    tables_.TakePrefix(s);  // for all of them before a block is allocated, which can evict a found prefix
    stats_.prefix_query_tokens += s.tokens.size();
    stats_.prefix_hit_tokens += static_cast<uint64_t>(s.kv.cached);
    metrics_.Add(CounterId::kPrefixQueryTokens, static_cast<double>(s.tokens.size()));
    metrics_.Add(CounterId::kPrefixHitTokens, static_cast<double>(s.kv.cached));
    metrics_.Set(GaugeId::kPrefixHitRatio,
                 static_cast<double>(s.kv.cached) / static_cast<double>(s.tokens.size()));
  }
  waiting_count_ = waiting_.size();
  for (const PlannedPart& part : plan.parts) {
    Sequence& s = *running_[static_cast<size_t>(part.sequence)];
    NUMOE_CHECK(!s.preempted && !s.ending) << "sequence " << s.id;
    tables_.Grow(s, s.kv.cached + part.tokens);
  }
}

// The step has sampled nothing and changed no `cached`. A new step is planned when the workers are back.
void Scheduler::DropStep(const absl::Status& status, EngineClock::time_point start) {
  if (!lost_since_) lost_since_ = start;
  metrics_.Add(CounterId::kStepsReplayed);
  RemoveFinished();
  EndAllIfTooLate(status);
}

void Scheduler::RecordStep(const StepPlan& plan, EngineClock::time_point start) {
  int tokens = 0, decodes = 0;
  for (const PlannedPart& part : plan.parts) {
    const Sequence& s = *running_[static_cast<size_t>(part.sequence)];
    tokens += part.tokens;
    decodes += s.uncached() == 1 ? 1 : 0;
    Charge(s.request.tenant, part.tokens);
  }
  step_end_ = options_.now();
  const double seconds = std::chrono::duration<double>(step_end_ - start).count();
  NUMOE_CHECK_LE(tokens, options_.limits.step_tokens);
  pacer_.Record(decodes, tokens - decodes, seconds);
  metrics_.Observe(HistogramId::kStepDuration, seconds);
  metrics_.Observe(HistogramId::kStepTokens, tokens);
  metrics_.Add(CounterId::kSteps);
  ++stats_.steps;
  stats_.last_step_s = seconds;
  stats_.last_step_tokens = tokens;
  stats_.tokens_computed += static_cast<uint64_t>(tokens);
}

void Scheduler::Charge(const Tenant& tenant, int tokens) {
  shares_.Charge(tenant.id, tenant.weight, tokens);
  if (tenant.name.empty()) return;
  prometheus::Counter*& counter = tenant_tokens_[tenant.id];
  if (counter == nullptr) {
    const bool own = tenant_tokens_.size() <= limits::kTenantSeriesMax;
    counter = &metrics_.With(CounterId::kTenantTokens, {own ? tenant.name : "others"});
  }
  counter->Increment(tokens);
}

void Scheduler::Sample(const StepPlan& plan, const execution::StepLogits& logits) {
  StepRows rows(logits);
  const uint64_t generated = stats_.tokens_generated;
  for (const PlannedPart& part : plan.parts) {
    Sequence& s = *running_[static_cast<size_t>(part.sequence)];
    const size_t end = rows.taken() + static_cast<size_t>(s.LogitRows(part.tokens));
    tables_.Computed(s, part.tokens);
    const absl::Status status = Advance(s, rows, end);
    rows.SkipTo(end);
    NUMOE_CHECK_EQ(rows.taken(), end) << "sequence " << s.id;
    if (status.ok()) {
      tables_.Publish(s);
    } else {
      tables_.Unpublish(s);  // if logits are not finite, the cached rows may not be either
      End(s, FinishReason::kError, status);
    }
  }
  metrics_.Add(CounterId::kTokensGenerated, static_cast<double>(stats_.tokens_generated - generated));
}

// Uses a part's rows of logits, up to `end`: for the probabilities of the prompt, and for the next token.
absl::Status Scheduler::Advance(Sequence& s, StepRows& rows, size_t end) {
  while (s.unscored() > 0 && rows.taken() < end) RETURN_IF_ERROR(drawer_.Score(s, rows.Next().logits));
  if (s.uncached() > 0) return absl::OkStatus();  // the prompt continues in a later step
  if (s.only_prompt()) {
    End(s, FinishReason::kLength);
    s.ending->prompt_logprobs = TokenDrawer::TakeScores(s);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(execution::DrawnToken drawn, drawer_.Draw(s, rows.Next()));
  Emit(s, std::move(drawn));
  return absl::OkStatus();
}

// Sends a token to the request. The last one is part of the ending, which RemoveFinished sends.
void Scheduler::Emit(Sequence& s, execution::DrawnToken drawn) {
  NUMOE_CHECK_LT(static_cast<int64_t>(s.tokens.size()), s.tokens_max);
  const bool first = s.generated() == 0;
  const auto since = std::chrono::duration<double>(step_end_ - (first ? s.arrived : s.last_token)).count();
  metrics_.Observe(first ? HistogramId::kTimeToFirstToken : HistogramId::kInterTokenLatency, since);
  s.tokens.push_back(drawn.token);
  s.last_token = step_end_;
  if (first) s.first_token = step_end_;
  ++stats_.tokens_generated;
  const SamplingParams& p = s.request.sampling;
  // After a constraint's text is complete, no token may follow.
  const bool ends = !p.ignore_eos || (s.request.constraint != nullptr && s.request.constraint->ends_text());
  const bool stopped =
      Contains(p.stop_token_ids, drawn.token) || (ends && Contains(options_.eos_token_ids, drawn.token));
  TokenEvent* event = &event_;
  if (stopped || static_cast<int64_t>(s.tokens.size()) >= s.tokens_max) {
    End(s, stopped ? FinishReason::kStop : FinishReason::kLength);
    event = &*s.ending;
  } else {
    event_.sequence = s.id;
    event_.cached_prompt_tokens = s.kv.reused.value_or(0);
    event_.admitted = s.admitted;
  }
  event->tokens.assign(1, drawn.token);
  event->logprobs = std::move(drawn.logprobs);
  event->prompt_logprobs = TokenDrawer::TakeScores(s);
  if (event == &event_) s.request.on_event(event_);
}

void Scheduler::End(Sequence& s, FinishReason reason, const absl::Status& error) const {
  NUMOE_CHECK(!s.ending) << "sequence " << s.id << " ends once";
  NUMOE_CHECK(reason != FinishReason::kNone && error.ok() == (reason != FinishReason::kError));
  s.ending = TokenEvent{.sequence = s.id,
                        .cached_prompt_tokens = s.kv.reused.value_or(0),
                        .finish = reason,
                        .error = error,
                        .admitted = s.admitted};
}

void Scheduler::EndAll(const absl::Status& error) {
  ForEach([&](Sequence& s) { End(s, FinishReason::kError, error); });
  lost_since_.reset();
  RemoveFinished();
}

// Removes the sequences that have ended, puts the preempted ones back into the queue, and sorts the running
// ones.
void Scheduler::RemoveFinished() {
  size_t stay = 0;
  for (SequencePtr& s : running_) {
    if (s->ending) {
      Finish(*s);
      s.reset();
    } else if (std::exchange(s->preempted, false)) {
      Queue(std::move(s));
    } else if (SequencePtr& place = running_[stay++]; &place != &s) {
      place = std::move(s);
    }
  }
  running_changed_ |= stay < running_.size();
  running_.resize(stay);
  if (std::exchange(running_changed_, false)) OrderByTurns(running_);
  waiting_.RemoveEnded([this](Sequence& s) { Finish(s); });
  waiting_count_ = waiting_.size();
}

void Scheduler::Finish(Sequence& s) {
  NUMOE_CHECK(s.ending && live_ > 0);
  slots_.Ended(s.request.tenant.id, options_.now());
  tables_.Release(s);
  metrics_.With(CounterId::kRequestsFinished, {ReasonName(s.ending->finish)}).Increment();
  metrics_.Observe(HistogramId::kRequestDuration, SecondsSince(s.arrived));
  RecordAnswer(s, metrics_);
  deadlines_ -= s.request.deadline ? 1 : 0;
  if (s.ending->finish != FinishReason::kCancelled) s.request.on_event(*s.ending);
  NUMOE_CHECK_GE(deadlines_, 0);
  --live_;
}

}  // namespace numoe::engine
