#include "coordinator/serving/api/request_trace.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

constexpr int kClientGone = 499;  // nginx's status for this

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::unique_ptr<RequestTrace> RequestTrace::Begin(Tracer* tracer, Metrics& metrics,
                                                  const net::HttpRequest& request) {
  if (tracer == nullptr) return nullptr;
  std::optional<TraceContext> context = tracer->Begin(request.Header("traceparent"));
  if (!context) return nullptr;
  return std::unique_ptr<RequestTrace>(new RequestTrace(*tracer, metrics, *std::move(context), request));
}

RequestTrace::RequestTrace(Tracer& tracer, Metrics& metrics, TraceContext context,
                           const net::HttpRequest& request)
    : tracer_(tracer), metrics_(metrics), begin_(Clock::now()) {
  root_ = {.trace_id = std::move(context.trace_id),
           .span_id = NewSpanId(),
           .parent_id = std::move(context.parent_id),
           .name = request.method + " " + request.path,
           .kind = SpanKind::kServer,
           .start_ns = UnixNanoseconds(),
           .end_ns = 0,
           .attributes = {{"http.request.method", request.method},
                          {"url.path", request.path},
                          {"numoe.request.id", request.id}},
           .error = ""};
}

RequestTrace::~RequestTrace() { End(kClientGone, "cancelled", {}); }

void RequestTrace::Describe(const GenerationRequest& request, const std::string& answer_id,
                            const std::string& model) {
  const std::string operation = request.conversation ? "chat" : "text_completion";
  root_.name = operation + " " + model;
  const engine::SamplingParams& p = request.sampling;
  Attributes& a = root_.attributes;
  a.insert(a.end(), {{"gen_ai.operation.name", operation},
                     {"gen_ai.provider.name", std::string("numoe")},
                     {"gen_ai.request.model", request.model.empty() ? model : request.model},
                     {"gen_ai.response.model", model},
                     {"gen_ai.response.id", answer_id},
                     {"gen_ai.request.temperature", double{p.temperature}},
                     {"gen_ai.request.top_p", double{p.top_p}},
                     {"gen_ai.request.stream", request.stream}});
  if (p.max_tokens) a.emplace_back("gen_ai.request.max_tokens", int64_t{*p.max_tokens});
  if (p.top_k > 0) a.emplace_back("gen_ai.request.top_k", double(p.top_k));
  if (p.seed) a.emplace_back("gen_ai.request.seed", static_cast<int64_t>(*p.seed));
  if (p.frequency_penalty != 0) a.emplace_back("gen_ai.request.frequency_penalty", p.frequency_penalty);
  if (p.presence_penalty != 0) a.emplace_back("gen_ai.request.presence_penalty", p.presence_penalty);
  if (request.n > 1) a.emplace_back("gen_ai.request.choice.count", int64_t{request.n});
}

void RequestTrace::Submitted(size_t choice) {
  if (choices_.size() <= choice) choices_.resize(choice + 1);
  choices_[choice].submitted = Clock::now();
}

void RequestTrace::Took(size_t choice, const engine::TokenEvent& event) {
  NUMOE_CHECK_LT(choice, choices_.size()) << "Submitted is called first";
  ChoiceTimes& times = choices_[choice];
  if (event.admitted != Clock::time_point()) times.admitted = event.admitted;
  if (event.tokens.empty()) return;
  times.last_token = Clock::now();
  if (!times.first_token) times.first_token = times.last_token;
}

int64_t RequestTrace::Nanoseconds(Clock::time_point time) const {
  return root_.start_ns + std::chrono::duration_cast<std::chrono::nanoseconds>(time - begin_).count();
}

Span RequestTrace::Part(const char* name, size_t choice, Clock::time_point begin,
                        Clock::time_point end) const {
  NUMOE_DCHECK(!root_.trace_id.empty() && !root_.span_id.empty());
  return {.trace_id = root_.trace_id,
          .span_id = NewSpanId(),
          .parent_id = root_.span_id,
          .name = name,
          .kind = SpanKind::kInternal,
          .start_ns = Nanoseconds(begin),
          .end_ns = Nanoseconds(std::max(begin, end)),
          .attributes = {{"numoe.choice.index", static_cast<int64_t>(choice)}},
          .error = ""};
}

// Adds the spans that the choice has reached; the last one that began lasts until the end of the request.
void RequestTrace::AddParts(size_t choice, const ChoiceTimes& times, Clock::time_point end,
                            std::vector<Span>& out) const {
  if (times.submitted == Clock::time_point()) return;
  out.push_back(Part("queue", choice, times.submitted, times.admitted.value_or(end)));
  if (!times.admitted) return;
  out.push_back(Part("prefill", choice, *times.admitted, times.first_token.value_or(end)));
  if (!times.first_token) return;
  NUMOE_CHECK(times.last_token.has_value() && *times.first_token <= *times.last_token);
  out.push_back(Part("decode", choice, *times.first_token, *times.last_token));
}

// Adds the trace to the histograms that the engine has counted this choice in, with the times known here.
void RequestTrace::AddExemplars(const ChoiceTimes& times) const {
  if (!times.first_token) return;
  const auto seconds = [&](Clock::time_point until) {
    return std::chrono::duration<double>(until - times.submitted).count();
  };
  metrics_.AddExemplar(HistogramId::kTimeToFirstToken, seconds(*times.first_token), root_.trace_id);
  metrics_.AddExemplar(HistogramId::kRequestDuration, seconds(*times.last_token), root_.trace_id);
}

void RequestTrace::End(int http_status, const std::string& error, const Choices& choices) {
  if (over_) return;
  over_ = true;
  const Clock::time_point now = Clock::now();
  root_.end_ns = Nanoseconds(now);
  Attributes& a = root_.attributes;
  a.emplace_back("http.response.status_code", int64_t{http_status});
  if (!error.empty()) a.emplace_back("error.type", std::to_string(http_status));
  if (!choices.empty()) {
    const TokenUsage usage = CountUsage(choices);
    a.emplace_back("gen_ai.usage.input_tokens", usage.prompt);
    a.emplace_back("gen_ai.usage.output_tokens", usage.completion);
    a.emplace_back("gen_ai.usage.cache_read.input_tokens", usage.cached);
    std::vector<std::string> reasons;
    for (const auto& choice : choices)
      if (!choice->finish_reason().empty()) reasons.push_back(choice->finish_reason());
    a.emplace_back("gen_ai.response.finish_reasons", std::move(reasons));
  }
  root_.error = error;
  for (const ChoiceTimes& times : choices_) AddExemplars(times);
  std::vector<Span> spans;
  for (size_t choice = 0; choice < choices_.size(); ++choice) AddParts(choice, choices_[choice], now, spans);
  spans.insert(spans.begin(), std::move(root_));
  tracer_.Export(std::move(spans));
}

}  // namespace numoe::serving
