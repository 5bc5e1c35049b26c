#include "coordinator/clients/serving_load/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/clients/serving_load/load_report.h"
#include "tests/support/canned_server.h"

namespace numoe::clients {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string Chunk(const std::string& text) { return R"({"choices":[{"index":0,"text":")" + text + R"("}]})"; }
const char kUsage[] = R"({"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":6}})";

LoadPlan PlanOf(size_t count) {
  LoadPlan plan;
  plan.requests.assign(count, {.prompt = "ask", .prompt_tokens = 3, .output_tokens = 4});
  plan.arrivals.assign(count, 0.0);
  plan.format.model = "m";
  return plan;
}

LoadResult RunOn(const CannedServer& server, const LoadPlan& plan,
                 const std::function<void(const LoadRunProgress&)>& on_progress = {}) {
  const auto client = *net::HttpClient::Create(*net::ParseUrl(server.url()), "");
  return RunLoad(*client, plan, on_progress);
}

TEST(RequestBody, IsTheSameAsThePublicClients) {
  const LoadRequest request{.prompt = "hi", .prompt_tokens = 1, .output_tokens = 8};
  EXPECT_EQ(json::parse(RequestBody(request, {.model = "m"})),
            json::parse(R"({"model":"m","prompt":"hi","max_tokens":8,"temperature":0,"stream":true,
                            "stream_options":{"include_usage":true},"ignore_eos":true})"));
  EXPECT_EQ(json::parse(RequestBody(
                request, {.chat = true, .model = "m", .ignore_eos = false, .extra = {{"temperature", 0.5}}})),
            json::parse(R"({"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":8,
                            "temperature":0.5,"stream":true,"stream_options":{"include_usage":true}})"));
}

TEST(LoadRun, RecordsTokensAndTimes) {
  CannedServer server([](const CannedRequest&) {
    return StreamReply(
        {R"({"choices":[{"delta":{"role":"assistant","content":""}}]})", Chunk("a"), Chunk("b"), Chunk("c"),
         R"({"choices":[{"text":"","finish_reason":"length"}]})", kUsage},
        5);
  });
  const LoadResult result = RunOn(server, PlanOf(1));
  ASSERT_EQ(result.requests.size(), 1u);
  const RequestResult& request = result.requests[0];
  EXPECT_TRUE(request.ok) << request.error;
  EXPECT_EQ(request.text, "abc");
  EXPECT_EQ(request.prompt_tokens, 11) << "from the server's usage";
  EXPECT_EQ(request.output_tokens, 6);
  ASSERT_EQ(request.itls_s.size(), 2u) << "neither the role nor the finish reason is a piece";
  EXPECT_GT(request.ttft_s, 0.005) << "the role does not count";
  double sum = request.ttft_s;
  for (const double itl : request.itls_s) sum += itl;
  EXPECT_NEAR(request.latency_s, sum, 1e-9);
  EXPECT_GE(result.duration_s, request.latency_s);
  EXPECT_EQ(server.requests()[0].target, "/v1/completions");
}

TEST(LoadRun, ReasoningAndCallsAreOutputAsWell) {
  CannedServer server([](const CannedRequest&) {
    return StreamReply(
        {R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})",
         R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]})"});
  });
  LoadPlan plan = PlanOf(1);
  plan.format.chat = true;
  const LoadResult result = RunOn(server, plan);
  EXPECT_TRUE(result.requests[0].ok);
  EXPECT_EQ(result.requests[0].output_tokens, 2) << "the pieces, because there is no usage";
  EXPECT_FALSE(result.requests[0].has_usage);
  EXPECT_EQ(result.requests[0].prompt_tokens, 3) << "as planned";
  EXPECT_EQ(server.requests()[0].target, "/v1/chat/completions");
}

TEST(LoadRun, EveryKindOfFailureIsReported) {
  const std::pair<CannedReply, const char*> cases[] = {
      {JsonReply(429, R"({"error":{"message":"the queue is full"}})"), "429: the queue is full"},
      {StreamReply({Chunk("a"), R"({"error":{"message":"worker gone"}})"}),
       "the server ended the answer with an error: worker gone"},
      {StreamReply({"{broken"}), "{broken"},
      {JsonReply(200, "{}"), "without [DONE]"},
      {{.pieces = {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ndata: "}}, "the answer was cut off"},
      {{.pieces = {""}}, "no answer from"}};
  for (const auto& [reply, message] : cases) {
    CannedServer server([&reply = reply](const CannedRequest&) { return reply; });
    const LoadResult result = RunOn(server, PlanOf(2));
    for (const RequestResult& request : result.requests) {
      EXPECT_FALSE(request.ok);
      EXPECT_THAT(request.error, HasSubstr(message));
    }
  }
}

TEST(LoadRun, ConcurrencyIsKept) {
  CannedServer server([](const CannedRequest&) { return StreamReply({Chunk("a"), Chunk("b")}, 3); });
  LoadPlan plan = PlanOf(24);
  plan.max_concurrency = 4;
  std::vector<LoadRunProgress> seen;
  const LoadResult result =
      RunOn(server, plan, [&](const LoadRunProgress& progress) { seen.push_back(progress); });
  for (const RequestResult& request : result.requests) EXPECT_TRUE(request.ok) << request.error;
  EXPECT_LE(Summarise(result).max_concurrent_requests, 4);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().done, 24u);
  EXPECT_EQ(seen.back().pieces, 48);
  for (const LoadRunProgress& progress : seen) EXPECT_LE(progress.running, 4u);
}

// The server answers only after all requests have arrived: a loop that waits for answers would never end.
TEST(LoadRun, ArrivalsDoNotWaitForAnswers) {
  std::atomic<int> arrived = 0;
  constexpr int kRequests = 100;
  CannedServer server([&](const CannedRequest&) {
    ++arrived;
    while (arrived < kRequests) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return StreamReply({Chunk("a")});
  });
  LoadPlan plan = PlanOf(kRequests);
  for (size_t i = 0; i < plan.arrivals.size(); ++i) plan.arrivals[i] = 0.001 * static_cast<double>(i);
  const LoadResult result = RunOn(server, plan);
  for (size_t i = 0; i < result.requests.size(); ++i) {
    EXPECT_TRUE(result.requests[i].ok) << result.requests[i].error;
    EXPECT_GE(result.requests[i].start_s, plan.arrivals[i]) << "not before its time";
  }
}

}  // namespace
}  // namespace numoe::clients
