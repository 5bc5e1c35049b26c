// Only the owner of a stored response can read it, and a response that was not stored cannot be found.
#include "coordinator/serving/api/responses_routes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/asked_routes.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

class ResponsesRoutesTest : public AskedRoutes {
 protected:
  ResponsesRoutesTest() { routes_.Register(urls_); }
  // Ends the preparing threads, which use the routes, before the routes.
  ~ResponsesRoutesTest() override { preparers_.Stop(); }

  ResponsesRoutes routes_{deps_, running_, preparers_};
};

TEST_F(ResponsesRoutesTest, AResponseThatWasNotStoredIsNotFound) {
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"GET", "/v1/responses/resp_1"},
                                                        {"DELETE", "/v1/responses/resp_1"},
                                                        {"POST", "/v1/responses/resp_1/cancel"},
                                                        {"GET", "/v1/responses/resp_1/input_items"}}) {
    const net::HttpReply reply = Ask(method, path);
    EXPECT_EQ(reply.status, 404) << method << path;
    EXPECT_THAT(reply.body, HasSubstr("no such response: resp_1"));
    EXPECT_FALSE(Found(method, path).counted) << "a key without free slots may read and cancel";
  }
  EXPECT_TRUE(Found("POST", "/v1/responses").counted);
}

TEST_F(ResponsesRoutesTest, ThePromptOfARequestIsCounted) {
  constexpr char kCount[] = "/v1/responses/input_tokens";
  EXPECT_EQ(AskJson("POST", kCount, R"({"model": "nano", "input": "hello", "instructions": "x"})"),
            (ordered_json{{"object", "response.input_tokens"},
                          {"input_tokens", std::string("system:x;user:hello;").size()}}));
  EXPECT_FALSE(Found("POST", kCount).counted);
  EXPECT_EQ(Ask("POST", kCount, R"({"model": "kimi", "input": "x"})").status, 404);
  EXPECT_THAT(Ask("POST", kCount, R"({"input": [1]})").body, HasSubstr("input[0]"));
  EXPECT_THAT(Ask("POST", kCount, R"({"input": "x", "previous_response_id": "resp_1"})").body,
              HasSubstr("previous_response_not_found"));
}

TEST_F(ResponsesRoutesTest, TheEnginesErrorIsTheAnswer) {
  const net::HttpReply refused = Ask("POST", "/v1/responses", R"({"input": "x"})");
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("this engine computes nothing"));
}

// The request is accepted before the engine is asked, so the response reports the engine's error.
TEST_F(ResponsesRoutesTest, AResponseInTheBackgroundReportsItsEnd) {
  const net::Caller owner{.tenant = 1}, other{.tenant = 2};
  const net::HttpReply accepted =
      Ask("POST", "/v1/responses", R"({"input": "x", "background": true, "verbosity": 1})", owner);
  EXPECT_EQ(accepted.status, 200) << accepted.body;
  EXPECT_THAT(accepted.headers, ::testing::Contains(::testing::Pair("X-NUMoE-Ignored-Fields", "verbosity")));
  const ordered_json queued = ordered_json::parse(accepted.body);
  EXPECT_EQ(queued["status"], "queued");
  const std::string path = "/v1/responses/" + queued["id"].get<std::string>();
  ordered_json kept;
  do kept = AskJson("GET", path, "", owner);
  while (kept["status"] == "in_progress");
  EXPECT_EQ(kept["status"], "failed");
  EXPECT_THAT(kept["error"]["message"], HasSubstr("this engine computes nothing"));
  EXPECT_EQ(AskJson("GET", path + "/input_items", "", owner)["data"].size(), 1u);
  EXPECT_EQ(Ask("GET", path, "", other).status, 404) << "another key's";
  EXPECT_EQ(Ask("DELETE", path, "", other).status, 404);
  EXPECT_EQ(AskJson("DELETE", path, "", owner)["deleted"], true);
  EXPECT_EQ(Ask("GET", path, "", owner).status, 404);
}

}  // namespace
}  // namespace numoe::serving
