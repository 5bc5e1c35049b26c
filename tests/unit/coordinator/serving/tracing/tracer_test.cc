// The tracer with collectors that accept spans, refuse them, hang or do not exist: nothing waits for them,
// and every span is counted.
#include "coordinator/serving/tracing/tracer.h"

#include <chrono>
#include <thread>

#include "coordinator/serving/tracing/tracing_limits.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/canned_server.h"

namespace numoe::serving {
namespace {

std::vector<Span> Spans(size_t count) {
  return std::vector<Span>(count, {.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                                   .span_id = "00f067aa0ba902b7",
                                   .parent_id = "",
                                   .name = "x",
                                   .attributes = {},
                                   .error = ""});
}

std::unique_ptr<Tracer> Make(const std::string& endpoint, Metrics& metrics, double ratio = 1) {
  auto tracer = Tracer::Create({.endpoint = endpoint, .ratio = ratio, .resource = {}}, metrics);
  EXPECT_TRUE(tracer.ok()) << tracer.status();
  return *std::move(tracer);
}

double Value(const Metrics& metrics, const std::string& name) {
  const std::string text = metrics.Serialise();
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
}

size_t SpansIn(const CannedRequest& request) {
  return nlohmann::json::parse(request.body).at("resourceSpans")[0].at("scopeSpans")[0].at("spans").size();
}

TEST(TracerTest, EverySpanArrivesOnceInBatches) {
  CannedServer collector([](const CannedRequest&) { return JsonReply(200, "{}"); });
  Metrics metrics(MetricOwner::kCoordinator);
  auto tracer = Make(collector.url(), metrics);
  for (int i = 0; i < 300; ++i) tracer->Export(Spans(4));
  tracer.reset();  // sends what is left
  size_t spans = 0;
  for (const CannedRequest& request : collector.requests()) {
    EXPECT_EQ(request.method + " " + request.target, "POST /v1/traces");
    EXPECT_EQ(request.Header("content-type"), "application/json");
    EXPECT_LE(SpansIn(request), limits::kTraceBatchSpansMax);
    spans += SpansIn(request);
  }
  EXPECT_EQ(spans, 1'200u);
  EXPECT_EQ(Value(metrics, "numoe_trace_spans_sent_total"), 1'200);
  EXPECT_EQ(Value(metrics, "numoe_trace_spans_dropped_total"), 0);
}

TEST(TracerTest, WithoutACollectorOnlySpansAreLost) {
  Metrics metrics(MetricOwner::kCoordinator);
  auto tracer = Make("http://127.0.0.1:1", metrics);
  const size_t count = 3 * limits::kTraceSpansMax;
  for (size_t i = 0; i < count / 4; ++i) tracer->Export(Spans(4));
  tracer.reset();
  EXPECT_EQ(Value(metrics, "numoe_trace_spans_sent_total"), 0);
  EXPECT_EQ(Value(metrics, "numoe_trace_spans_dropped_total"), static_cast<double>(count));
}

TEST(TracerTest, AHangingCollectorDelaysTheEndForALimitedTime) {
  CannedServer collector([](const CannedRequest&) { return CannedReply{.pieces = {}, .hold = true}; });
  Metrics metrics(MetricOwner::kCoordinator);
  auto tracer = Make(collector.url(), metrics);
  tracer->Export(Spans(4));
  const auto begin = std::chrono::steady_clock::now();
  tracer.reset();
  // The tracer limits this time itself; the bound of the test only distinguishes it from a hang.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(Value(metrics, "numoe_trace_spans_dropped_total"), 4);
}

TEST(TracerTest, ATemporarilyRefusedBatchIsSentAgain) {
  std::atomic<int> asked{0};
  CannedServer collector([&](const CannedRequest&) { return JsonReply(asked++ == 0 ? 503 : 200, "{}"); });
  Metrics metrics(MetricOwner::kCoordinator);
  auto tracer = Make(collector.url(), metrics);
  tracer->Export(Spans(2));
  for (int i = 0; i < 3'000 && Value(metrics, "numoe_trace_spans_sent_total") < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(Value(metrics, "numoe_trace_spans_sent_total"), 2);
  EXPECT_EQ(asked.load(), 2);
}

TEST(TracerTest, TheClientsFlagCountsBeforeTheRatio) {
  Metrics metrics(MetricOwner::kCoordinator);
  const auto never = Make("http://127.0.0.1:1", metrics, 0);
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";
  EXPECT_EQ(never->Begin(parent + "01")->parent_id, "00f067aa0ba902b7");
  EXPECT_FALSE(never->Begin("").has_value());
  const auto always = Make("http://127.0.0.1:1", metrics, 1);
  EXPECT_FALSE(always->Begin(parent + "00").has_value());
  EXPECT_TRUE(always->Begin("garbage")->parent_id.empty());
}

TEST(TracerTest, AMalformedAddressIsRefused) {
  Metrics metrics(MetricOwner::kCoordinator);
  for (const char* wrong : {"ftp://x", "http://", "http://user@host"}) {
    const auto tracer = Tracer::Create({.endpoint = wrong, .resource = {}}, metrics);
    EXPECT_NE(std::string(tracer.status().message()).find("--otlp-endpoint"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace numoe::serving
