// The length of a conversation as a prompt, in Anthropic's API.
#include "coordinator/serving/api/messages_routes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/asked_routes.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr char kPath[] = "/v1/messages/count_tokens";

class MessagesRoutesTest : public AskedRoutes {
 protected:
  MessagesRoutesTest() { AddMessagesRoutes(urls_, deps_, preparers_); }
};

TEST_F(MessagesRoutesTest, TheTokensOfAConversationAreCounted) {
  const ordered_json counted =
      AskJson("POST", kPath, R"({"model": "nano", "messages": [{"role": "user", "content": "hello"}]})");
  EXPECT_EQ(counted, (ordered_json{{"input_tokens", std::string("user:hello;").size()}}));
  EXPECT_FALSE(Found("POST", kPath).counted);
}

TEST_F(MessagesRoutesTest, ErrorsHaveAnthropicsShape) {
  const net::HttpReply other =
      Ask("POST", kPath, R"({"model": "kimi", "messages": [{"role": "user", "content": "x"}]})");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(ordered_json::parse(other.body)["type"], "error");
  EXPECT_THAT(other.body, HasSubstr("kimi"));
  EXPECT_EQ(Ask("POST", kPath, R"({"model": "nano"})").status, 400);
}

}  // namespace
}  // namespace numoe::serving
