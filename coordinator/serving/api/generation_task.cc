#include "coordinator/serving/api/generation_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "common/base/check.h"
#include "coordinator/net/http/message_heads.h"
#include "coordinator/serving/api/ignored_fields.h"
#include "coordinator/serving/api/tenant.h"

namespace numoe::serving {

std::string NewAnswerId(const char* prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

namespace {

// If the engine refuses a parameter, its message begins with the parameter's name. Otherwise the prompt is
// longer than the context.
net::ApiError FromEngine(const absl::Status& status, const net::ApiError& too_long) {
  net::ApiError error = net::FromStatus(status);
  if (error.http_status != 400) return error;
  const size_t colon = error.message.find(": ");
  if (colon == std::string::npos) return too_long;
  error.param = error.message.substr(0, colon);
  return error;
}

}  // namespace

void RunningTasks::Add(const std::string& id, const std::shared_ptr<GenerationTask>& task) {
  NUMOE_CHECK(!id.empty() && task != nullptr);
  const MutexLock lock(mutex_);
  tasks_.emplace(id, task);
  if (tasks_.size() < sweep_size_) return;
  for (auto it = tasks_.begin(); it != tasks_.end();)
    it = it->second.expired() ? tasks_.erase(it) : std::next(it);
  sweep_size_ = std::max(kSweepSizeMin, 2 * tasks_.size());
}

std::vector<std::shared_ptr<GenerationTask>> RunningTasks::Find(const std::string& id,
                                                                const net::Caller& caller) {
  std::vector<std::shared_ptr<GenerationTask>> found;
  const MutexLock lock(mutex_);
  for (const auto& [key, weak] : tasks_) {
    auto task = id.empty() || key == id ? weak.lock() : nullptr;
    const bool may = task != nullptr && (caller.admin || task->caller().tenant == caller.tenant);
    // One task may have several ids.
    if (may && std::find(found.begin(), found.end(), task) == found.end()) found.push_back(std::move(task));
  }
  return found;
}

int RunningTasks::size() { return static_cast<int>(Find("", {.admin = true}).size()); }

void GenerationTask::Start(PreparationPool& preparers) {
  trace_ = RequestTrace::Begin(deps_.tracer, deps_.metrics, exchange_->request());
  // Refuses before any work, because an overloaded server must not tokenise.
  if (!deps_.engine.HasRoom(TenantOf(caller_), preparers.Lines())) {
    const bool draining = deps_.health().status == "draining";
    if (!draining) deps_.metrics.Add(CounterId::kRequestsRejected);
    net::ApiError error = net::FromStatus(
        draining ? absl::UnavailableError("the server is draining and accepts no new requests")
                 : absl::ResourceExhaustedError("the queue is full; try again later"));
    if (draining) error.code = "draining";  // numoe-router reads it
    if (trace_) trace_->End(error.http_status, error.code.value_or(error.type), choices_);
    return exchange_->ReplyError(error);
  }
  running_.Add(exchange_->request().id, shared_from_this());
  exchange_->OnGone([self = shared_from_this()] {
    self->gone_->store(true);
    self->CancelAll();
    self->trace_.reset();  // records that the client has gone
  });
  preparers.AddRequest(exchange_, gone_, [self = shared_from_this()]() -> PreparationPool::Then {
    auto prepared = std::make_shared<std::variant<Prepared, net::ApiError>>(Prepare(
        self->exchange_->TakeBody(), self->dialect_.read, self->deps_, self->dialect_.unasked_thinking));
    return [self, prepared] {
      if (const auto* error = std::get_if<net::ApiError>(&*prepared)) return self->Fail(*error);
      self->Submit(std::get<Prepared>(std::move(*prepared)));
    };
  });
}

// A key's limit counts sequences, whatever number of requests they belong to.
bool GenerationTask::AcquireSlots(size_t sequences) {
  const std::shared_ptr<net::ConcurrencySlot> slot = exchange_->Slot();
  return slot == nullptr || slot->Widen(static_cast<int>(sequences));
}

void GenerationTask::Submit(Prepared prepared) {
  if (over_) return;
  prepared_ = std::move(prepared);
  const GenerationRequest& request = prepared_.request;
  const size_t count = prepared_.prompts.size() * static_cast<size_t>(request.best_of);
  if (!AcquireSlots(count)) {
    return Fail(net::FromStatus(absl::ResourceExhaustedError(fmt::format(
        "this request's {} answers would exceed the limit of concurrent answers of its API key; ask for "
        "fewer, or try again when another request has ended",
        count))));
  }
  const std::string id = request.request_id.empty() ? NewAnswerId(dialect_.id_prefix) : request.request_id;
  running_.Add(id, shared_from_this());
  const double timeout_s = request.timeout_s.value_or(deps_.request_timeout_s);
  if (timeout_s > 0) {
    deadline_ =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(timeout_s));
  }
  NUMOE_CHECK(count > 0 && prepared_.constraints.size() == count);
  NUMOE_CHECK(1 <= request.n && request.n <= request.best_of);
  for (size_t prompt = 0; prompt < prepared_.prompts.size(); ++prompt)
    deps_.metrics.Observe(HistogramId::kRequestChoices, request.n);
  sequences_.resize(count);
  submitted_.resize(count);
  for (size_t index = 0; index < count; ++index) {
    const size_t prompt = index / static_cast<size_t>(request.best_of);
    choices_.push_back(
        std::make_unique<Choice>(request, ChoiceSetup{.tokenizer = deps_.tokenizer,
                                                      .format = deps_.output_format,
                                                      .eos_token_ids = deps_.eos_token_ids,
                                                      .prompt = prepared_.prompts[prompt],
                                                      .index = static_cast<int>(index),
                                                      .prompt_index = static_cast<int>(prompt)}));
  }
  if (trace_) trace_->Describe(request, id, deps_.model_names.at(0));
  LogIgnoredFields(exchange_->request().id, request.ignored_fields, std::chrono::steady_clock::now());
  // The text has become tokens. A stream must not keep it for its whole duration, and neither must the
  // writer.
  prepared_.request.conversation.reset();
  prepared_.request.prompts.clear();
  auto writer =
      dialect_.write(request, {.tokenizer = deps_.tokenizer,
                               .id = id,
                               .model = request.model.empty() ? deps_.model_names.at(0) : request.model,
                               .created = std::time(nullptr),
                               .fingerprint = deps_.fingerprint,
                               .prompts = prepared_.prompts});
  if (!writer.ok()) return Fail(net::FromStatus(writer.status()));
  writer_ = *std::move(writer);
  for (size_t index = 0; index < count && !over_; index += static_cast<size_t>(request.best_of))
    SubmitChoice(index);
}

void GenerationTask::SubmitChoice(size_t index) {
  const GenerationRequest& request = prepared_.request;
  const auto prompt = static_cast<size_t>(choices_[index]->prompt_index());
  NUMOE_CHECK_LT(prompt, prepared_.prompts.size());
  NUMOE_CHECK(!submitted_[index] && !sequences_[index]) << "choice " << index;
  submitted_[index] = true;
  engine::EngineRequest generate{.request_id = exchange_->request().id,
                                 .prompt = prepared_.prompts[prompt],
                                 .cache_salt = PrefixSalt(caller_, deps_) + request.cache_salt,
                                 .sampling = request.sampling,
                                 .constraint = std::move(prepared_.constraints[index]),
                                 .on_event = nullptr,
                                 .tenant = TenantOf(caller_),
                                 .priority = request.priority,
                                 .deadline = deadline_};
  // With equal seeds all choices of a prompt would be the same.
  if (generate.sampling.seed) *generate.sampling.seed += index % static_cast<size_t>(request.best_of);
  if (request.best_of > request.n && !generate.sampling.logprobs) generate.sampling.logprobs = 0;
  generate.on_event = [self = shared_from_this(), index](const engine::TokenEvent& event) {
    // Called on the engine's thread, which must only post the event.
    self->exchange_->Post([self, index, event] { self->OnEvent(index, event); });
  };
  if (trace_) trace_->Submitted(index);
  const absl::StatusOr<SequenceId> sequence = deps_.engine.Submit(std::move(generate));
  if (!sequence.ok()) {
    const auto tokens = static_cast<int64_t>(prepared_.prompts[prompt].size());
    return Fail(FromEngine(sequence.status(), PromptTooLong(request, tokens, deps_)));
  }
  sequences_[index] = *sequence;
}

void GenerationTask::OnEvent(size_t index, const engine::TokenEvent& event) {
  NUMOE_CHECK_LT(index, choices_.size());
  if (over_ || choices_[index]->done()) return;
  if (trace_) trace_->Took(index, event);
  if (event.finish == engine::FinishReason::kError && !(absl::IsDeadlineExceeded(event.error) && Began())) {
    sequences_[index].reset();
    return Fail(net::FromStatus(event.error));
  }
  Choice& choice = *choices_[index];
  const ChoiceStep step = choice.Take(event);
  if (choice.done()) {
    NUMOE_CHECK(sequences_[index].has_value()) << "choice " << index << " ends once";
    if (choice.ended_early() && event.finish == engine::FinishReason::kNone)
      deps_.engine.Cancel(*sequences_[index]);
    sequences_[index].reset();
  }
  SendStep(choice, step);
  const size_t end = (index / static_cast<size_t>(prepared_.request.best_of) + 1) *
                     static_cast<size_t>(prepared_.request.best_of);
  for (size_t sibling = index + 1; sibling < end && !over_; ++sibling) {
    if (!submitted_[sibling]) SubmitChoice(sibling);
  }
  FinishIfDone();
}

// Whether a part of the answer exists, which the client gets even if its deadline passes.
bool GenerationTask::Began() const {
  return std::any_of(choices_.begin(), choices_.end(),
                     [](const auto& choice) { return choice->completion_tokens() > 0; });
}

void GenerationTask::BeginStream() {
  if (std::exchange(streaming_, true)) return;
  net::HttpReply head = net::EventStream();
  for (auto& header : IgnoredFieldsHeaders(prepared_.request.ignored_fields))
    head.headers.push_back(std::move(header));
  exchange_->BeginBody(std::move(head));
}

void GenerationTask::SendStep(const Choice& choice, const ChoiceStep& step) {
  if (!prepared_.request.stream) return;
  NUMOE_CHECK(writer_ != nullptr);
  std::string events = writer_->Events(choice, step);
  if (events.empty()) return;
  BeginStream();
  exchange_->Send(std::move(events));
}

void GenerationTask::FinishIfDone() {
  if (over_) return;
  if (!std::all_of(choices_.begin(), choices_.end(), [](const auto& choice) { return choice->done(); }))
    return;
  over_ = true;
  constexpr int kOk = 200;
  if (trace_) trace_->End(kOk, "", choices_);
  exchange_->CountTokens(static_cast<int>(CountUsage(choices_).completion));
  if (prepared_.request.stream) {
    BeginStream();
    exchange_->Send(writer_->End(choices_));
    return exchange_->EndStream();
  }
  const auto n = static_cast<size_t>(prepared_.request.n),
             best_of = static_cast<size_t>(prepared_.request.best_of);
  Choices best;
  for (size_t first = 0; first < choices_.size(); first += best_of) {
    const auto begin = choices_.begin() + static_cast<int64_t>(first);
    if (best_of > n) {
      std::stable_sort(begin, begin + static_cast<int64_t>(best_of),
                       [](const auto& a, const auto& b) { return a->MeanLogprob() > b->MeanLogprob(); });
    }
    for (size_t i = 0; i < n; ++i) best.push_back(std::move(choices_[first + i]));
  }
  NUMOE_CHECK_EQ(best.size(), choices_.size() / best_of * n);
  exchange_->Reply({.status = kOk,
                    .body = writer_->Whole(best),
                    .headers = IgnoredFieldsHeaders(prepared_.request.ignored_fields)});
}

void GenerationTask::Abort() {
  exchange_->Post([self = shared_from_this()] {
    if (self->over_ || self->writer_ == nullptr) return;
    for (size_t index = 0; index < self->choices_.size(); ++index) {
      Choice& choice = *self->choices_[index];
      if (choice.done()) continue;
      if (self->sequences_[index]) self->deps_.engine.Cancel(*self->sequences_[index]);
      self->sequences_[index].reset();
      self->SendStep(choice, choice.Take({.finish = engine::FinishReason::kCancelled, .error = {}}));
    }
    self->FinishIfDone();
  });
}

void GenerationTask::Fail(const net::ApiError& error) {
  if (over_) return;
  CancelAll();
  if (trace_) trace_->End(error.http_status, error.code.value_or(error.type), choices_);
  if (!streaming_) return exchange_->ReplyError(error);
  exchange_->Send(writer_->Failure(error));
  exchange_->EndStream();
}

void GenerationTask::CancelAll() {
  over_ = true;
  for (std::optional<SequenceId>& sequence : sequences_) {
    if (sequence) deps_.engine.Cancel(*sequence);
    sequence.reset();
  }
}

}  // namespace numoe::serving
