// Texts and conversations as tokens and back, on the paths of vLLM and of SGLang's clients.
#include "coordinator/serving/api/token_routes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/asked_routes.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

class TokenRoutesTest : public AskedRoutes {
 protected:
  TokenRoutesTest() { AddTokenRoutes(urls_, deps_, preparers_); }
};

TEST_F(TokenRoutesTest, ATextBecomesTokensAndBack) {
  for (const std::string version : {"", "/v1"}) {
    const ordered_json tokens = AskJson("POST", version + "/tokenize", R"({"prompt": "hi"})");
    EXPECT_EQ(tokens, (ordered_json{{"count", 2}, {"max_model_len", 1000}, {"tokens", {'h', 'i'}}}));
    const ordered_json text =
        AskJson("POST", version + "/detokenize", ordered_json{{"tokens", tokens["tokens"]}}.dump());
    EXPECT_EQ(text, (ordered_json{{"prompt", "hi"}, {"text", "hi"}, {"content", "hi"}}));
    EXPECT_FALSE(Found("POST", version + "/tokenize").counted);
  }
}

TEST_F(TokenRoutesTest, AConversationIsRenderedFirst) {
  const ordered_json tokens = AskJson(
      "POST", "/tokenize", R"({"messages": [{"role": "user", "content": "x"}], "return_token_strs": true})");
  EXPECT_EQ(tokens["count"], 7);  // user:x;
  EXPECT_EQ(tokens["token_strs"], (ordered_json{"u", "s", "e", "r", ":", "x", ";"}));
}

TEST_F(TokenRoutesTest, ATemplateIsApplied) {
  const ordered_json rendered = AskJson("POST", "/apply-template", R"({"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "日本"}]}]})");
  EXPECT_EQ(rendered, (ordered_json{{"prompt", "system:Be brief.;user:日本;"}}));
  EXPECT_FALSE(Found("POST", "/apply-template").counted);
  const net::HttpReply wrong = Ask("POST", "/apply-template", R"({"messages": [{"role": "robot"}]})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("messages[0].role"));
  deps_.chat_template = nullptr;
  EXPECT_THAT(Ask("POST", "/apply-template", R"({"messages": [{"role": "user", "content": "x"}]})").body,
              HasSubstr("no chat template"));
}

// Clients count tokens in order to shorten a conversation.
TEST_F(TokenRoutesTest, PromptsLongerThanTheContextAreCounted) {
  const std::string body = R"({"content": ")" + std::string(3'000, 'x') + "\"}";
  EXPECT_EQ(AskJson("POST", "/tokenize", body)["count"], 3'000);
}

TEST_F(TokenRoutesTest, UnsupportedFieldsAreRefused) {
  const std::string messages = R"("messages": [{"role": "user", "content": "x"}])";
  for (const std::string path : {"/tokenize", "/apply-template"}) {
    EXPECT_THAT(Ask("POST", path, "{" + messages + R"(, "documents": [{"text": "d"}]})").body,
                HasSubstr("'documents'"));
    EXPECT_THAT(Ask("POST", path, "{" + messages + R"(, "chat_template": "x"})").body,
                HasSubstr("'chat_template'"));
    EXPECT_EQ(Ask("POST", path, "{" + messages + R"(, "model": "other"})").status, 404);
  }
}

TEST_F(TokenRoutesTest, UnknownTokenIdsAreRefused) {
  const net::HttpReply beyond = Ask("POST", "/detokenize", R"({"tokens": [104, 257]})");
  EXPECT_EQ(beyond.status, 400);
  EXPECT_THAT(beyond.body, HasSubstr("ids below 257, found 257"));
  EXPECT_THAT(Ask("POST", "/detokenize", "{}").body, HasSubstr("a list of token ids, found nothing"));
  EXPECT_THAT(Ask("POST", "/tokenize", R"({"prompt": ["a", "b"]})").body, HasSubstr("one prompt"));
  EXPECT_EQ(Ask("POST", "/tokenize", "[").status, 400);
}

}  // namespace
}  // namespace numoe::serving
