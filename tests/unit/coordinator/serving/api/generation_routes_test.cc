// The four routes for answers use the engine, and its errors are returned in the shape of each API.
#include "coordinator/serving/api/generation_routes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/asked_routes.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

class GenerationRoutesTest : public AskedRoutes {
 protected:
  GenerationRoutesTest() { AddGenerationRoutes(urls_, deps_, running_, preparers_); }

  const std::vector<std::pair<std::string, std::string>> asked_ = {
      {"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}]})"},
      {"/v1/completions", R"({"prompt": "x"})"},
      {"/v1/messages", R"({"max_tokens": 4, "messages": [{"role": "user", "content": "x"}]})"},
      {"/generate", R"({"text": "x"})"}};
};

TEST_F(GenerationRoutesTest, TheEnginesErrorIsTheAnswer) {
  for (const auto& [path, body] : asked_) {
    const net::HttpReply reply = Ask("POST", path, body);
    EXPECT_EQ(reply.status, 503) << path << reply.body;
    EXPECT_THAT(reply.body, HasSubstr("this engine computes nothing")) << path;
    const bool anthropic = path == "/v1/messages";
    EXPECT_EQ(ordered_json::parse(reply.body).contains("type"), anthropic) << reply.body;
    EXPECT_TRUE(Found("POST", path).counted);
  }
  preparers_.Stop();  // its thread may hold the last task
  EXPECT_EQ(running_.size(), 0);
}

TEST_F(GenerationRoutesTest, WithoutRoomNothingIsPrepared) {
  engine_.room = false;
  for (const auto& [path, body] : asked_) EXPECT_EQ(Ask("POST", path, body).status, 429) << path;
}

}  // namespace
}  // namespace numoe::serving
