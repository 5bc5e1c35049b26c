// A last message that is continued, with each of its names; documents; and the echo of a conversation.
#include "coordinator/serving/api/conversation_extras.h"

#include "coordinator/serving/api/choice.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/preparation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/api_fixture.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::variant<GenerationRequest, net::ApiError> ReadExtras(const std::string& last,
                                                          const std::string& more = "") {
  return ReadChatRequest(
      ordered_json::parse(R"({"messages": [{"role": "user", "content": "hi"}, )" + last + "]" + more + "}"),
      {});
}

TEST(ConversationExtrasTest, PartialAndPrefixContinueTheLastMessage) {
  for (const char* open : {R"({"role": "assistant", "content": "so", "partial": true})",
                           R"({"role": "assistant", "content": "so", "prefix": true, "partial": false})"}) {
    const auto read = ReadExtras(open);
    ASSERT_EQ(read.index(), 0u) << std::get<net::ApiError>(read).message;
    EXPECT_TRUE(std::get<GenerationRequest>(read).conversation->continue_final_message);
    EXPECT_FALSE(std::get<GenerationRequest>(read).conversation->add_generation_prompt);
    EXPECT_EQ(std::get<GenerationRequest>(read).echo_text, "");
  }
  const auto closed = ReadExtras(R"({"role": "assistant", "content": "so", "partial": false})");
  EXPECT_FALSE(std::get<GenerationRequest>(closed).conversation->continue_final_message);
  for (const auto& [last, param] : std::vector<std::pair<const char*, const char*>>{
           {R"({"role": "user", "content": "so", "partial": true})", "messages[1].partial"},
           {R"({"role": "assistant", "content": "so", "prefix": 1})", "messages[1].prefix"}}) {
    const auto read = ReadExtras(last);
    ASSERT_EQ(read.index(), 1u) << last;
    EXPECT_EQ(std::get<net::ApiError>(read).param, param);
  }
}

TEST(ConversationExtrasTest, AnEchoIsTheTextOfTheContinuedMessage) {
  const auto read = ReadExtras(R"({"role": "assistant", "content": "so"})",
                               R"(, "continue_final_message": true, "echo": true)");
  const auto& request = std::get<GenerationRequest>(read);
  EXPECT_EQ(request.echo_text, "so");
  EXPECT_FALSE(request.echo);
  const ByteTokenizer tokenizer{{}};
  const text::OutputFormat format;
  const std::vector<TokenId> none, prompt = {1};
  Choice choice(request, {.tokenizer = tokenizer, .format = format, .eos_token_ids = none, .prompt = prompt});
  choice.Take({.tokens = {'!'}});
  choice.Take({.tokens = {'?'}, .finish = engine::FinishReason::kLength});
  EXPECT_EQ(choice.answer().content, "so!?");
  EXPECT_EQ(
      std::get<GenerationRequest>(ReadExtras(R"({"role": "user", "content": "x"})", R"(, "echo": true)"))
          .echo_text,
      "");
}

class DocumentsTest : public ApiFixture {};

TEST_F(DocumentsTest, DocumentsAreGivenToTheTemplateOrRefused) {
  const auto asked = R"({"messages": [{"role": "user", "content": "hi"}], "documents": [{"text": "d1"}]})";
  auto refused = Prepare(asked, ReadChatRequest, deps);
  ASSERT_EQ(refused.index(), 1u);
  EXPECT_THAT(std::get<net::ApiError>(refused).message, ::testing::HasSubstr("has no place for them"));
  EXPECT_EQ(std::get<net::ApiError>(refused).param, "documents");
  const auto showing =
      *text::ChatTemplate::Parse("{% for d in documents %}<{{ d.text }}>{% endfor %}", "test");
  deps.chat_template = showing.get();
  auto prepared = Prepare(asked, ReadChatRequest, deps);
  ASSERT_EQ(prepared.index(), 0u);
  EXPECT_EQ(tokenizer_.Decode(std::get<Prepared>(prepared).prompts[0], false), "<d1>");
  EXPECT_EQ(
      Prepare(R"({"messages": [{"role": "user", "content": "hi"}], "documents": [1]})", ReadChatRequest, deps)
          .index(),
      1u);
}

}  // namespace
}  // namespace numoe::serving
