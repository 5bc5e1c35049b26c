// The spans of a request, up to the part that it has reached.
#include "coordinator/serving/api/request_trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;

class KeptSpans final : public Tracer {
 public:
  std::optional<TraceContext> Begin(std::string_view traceparent) const override {
    if (traceparent == "off") return std::nullopt;
    return TraceContext{.trace_id = "trace", .parent_id = std::string(traceparent)};
  }
  void Export(std::vector<Span> of_a_request) override { exports.push_back(std::move(of_a_request)); }

  std::vector<std::vector<Span>> exports;
};

std::vector<std::string> NamesOf(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) names.push_back(span.name);
  return names;
}

std::string TextOf(const Span& span, const std::string& name) {
  for (const auto& [key, value] : span.attributes) {
    if (key != name) continue;
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
    return "another type";
  }
  return "none";
}

engine::TokenEvent Admitted() { return {.error = {}, .admitted = std::chrono::steady_clock::now()}; }

net::HttpRequest Asked(const std::string& traceparent) {
  return {.method = "POST",
          .path = "/v1/chat/completions",
          .headers = {{"traceparent", traceparent}},
          .id = "r1"};
}

TEST(RequestTraceTest, NothingIsRecordedWithoutATracerOrASample) {
  KeptSpans tracer;
  Metrics metrics(MetricOwner::kCoordinator);
  EXPECT_EQ(RequestTrace::Begin(nullptr, metrics, Asked("p")), nullptr);
  EXPECT_EQ(RequestTrace::Begin(&tracer, metrics, Asked("off")), nullptr);
  EXPECT_TRUE(tracer.exports.empty());
}

TEST(RequestTraceTest, AnAnswerHasItsPartsInOrder) {
  KeptSpans tracer;
  Metrics metrics(MetricOwner::kCoordinator);
  auto trace = RequestTrace::Begin(&tracer, metrics, Asked("parent"));
  GenerationRequest request;
  request.conversation.emplace();
  request.sampling.max_tokens = 9;
  trace->Describe(request, "chatcmpl-1", "m");
  trace->Submitted(0);
  trace->Took(0, Admitted());
  trace->Took(0, {.tokens = {1}, .error = {}});
  trace->Took(0, {.tokens = {2}, .error = {}});
  trace->End(200, "", {});
  ASSERT_EQ(tracer.exports.size(), 1u);
  const std::vector<Span>& spans = tracer.exports[0];
  ASSERT_THAT(NamesOf(spans), ElementsAre("chat m", "queue", "prefill", "decode"));
  EXPECT_EQ(spans[0].parent_id, "parent");
  EXPECT_EQ(TextOf(spans[0], "gen_ai.request.max_tokens"), "9");
  EXPECT_EQ(TextOf(spans[0], "gen_ai.response.id"), "chatcmpl-1");
  EXPECT_EQ(TextOf(spans[0], "http.response.status_code"), "200");
  EXPECT_EQ(TextOf(spans[0], "error.type"), "none");
  for (size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].parent_id, spans[0].span_id);
    EXPECT_EQ(spans[i].trace_id, "trace");
    EXPECT_LE(spans[i].start_ns, spans[i].end_ns);
    EXPECT_LE(spans[i - 1].start_ns, spans[i].start_ns);
  }
  const std::string text = metrics.SerialiseOpenMetrics();
  for (const char* name : {"time_to_first_token", "request_duration"})
    EXPECT_THAT(text, ContainsRegex("numoe_" + std::string(name) +
                                    "_seconds_bucket\\{le=\"[^\"]+\"\\} 0 # \\{trace_id=\"trace\"\\} "));
}

TEST(RequestTraceTest, TheLastPartLastsUntilTheEnd) {
  KeptSpans tracer;
  Metrics metrics(MetricOwner::kCoordinator);
  auto trace = RequestTrace::Begin(&tracer, metrics, Asked(""));
  trace->Submitted(0);
  trace->Submitted(2);  // the second choice was never submitted
  trace->Took(2, Admitted());
  trace->End(504, "timeout", {});
  const std::vector<Span>& spans = tracer.exports.at(0);
  ASSERT_THAT(NamesOf(spans), ElementsAre("POST /v1/chat/completions", "queue", "queue", "prefill"));
  EXPECT_EQ(TextOf(spans[1], "numoe.choice.index"), "0");
  EXPECT_EQ(TextOf(spans[2], "numoe.choice.index"), "2");
  EXPECT_EQ(spans[1].end_ns, spans[0].end_ns);
  EXPECT_EQ(spans[3].end_ns, spans[0].end_ns);
  EXPECT_EQ(spans[0].error, "timeout");
  EXPECT_EQ(TextOf(spans[0], "error.type"), "504");
}

TEST(RequestTraceTest, WithoutAnEndTheClientHasGoneAndTheFirstEndCounts) {
  KeptSpans tracer;
  Metrics metrics(MetricOwner::kCoordinator);
  RequestTrace::Begin(&tracer, metrics, Asked("")).reset();
  ASSERT_EQ(tracer.exports.size(), 1u);
  EXPECT_EQ(tracer.exports[0][0].error, "cancelled");
  EXPECT_EQ(TextOf(tracer.exports[0][0], "http.response.status_code"), "499");
  auto trace = RequestTrace::Begin(&tracer, metrics, Asked(""));
  trace->End(200, "", {});
  trace->End(500, "x", {});
  trace.reset();
  ASSERT_EQ(tracer.exports.size(), 2u);
  EXPECT_EQ(TextOf(tracer.exports[1][0], "http.response.status_code"), "200");
}

}  // namespace
}  // namespace numoe::serving
