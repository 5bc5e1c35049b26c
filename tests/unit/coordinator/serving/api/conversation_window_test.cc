// Which messages are left out of a conversation that is too long, and which are always kept.
#include "coordinator/serving/api/conversation_window.h"

#include <memory>

#include "coordinator/serving/api/preparation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/api_fixture.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

// The context has 100 tokens, one for each byte; the prompt contains a message as ROLE:CONTENT;
class ConversationWindowTest : public ApiFixture {
 protected:
  struct Message {
    const char* role;
    std::string content;
  };

  std::string Kept(const std::vector<Message>& messages, bool truncate = true,
                   std::optional<int> max_tokens = std::nullopt) {
    const auto made = std::make_unique<GenerationRequest>();
    GenerationRequest& request = *made;
    request.conversation.emplace();
    request.prompt_param = "input";
    for (const auto& [role, content] : messages)
      request.conversation->messages.push_back({{"role", role}, {"content", content}});
    request.truncation.messages = truncate;
    request.sampling.max_tokens = max_tokens;
    const auto ids = TokeniseConversation(request, deps);
    if (const auto* error = std::get_if<net::ApiError>(&ids)) return "refused: " + error->message;
    return tokenizer_.Decode(std::get<0>(ids), /*skip_special=*/false);
  }
};

TEST_F(ConversationWindowTest, AConversationThatFitsIsNotChanged) {
  EXPECT_EQ(Kept({{"user", "a"}, {"assistant", "b"}, {"user", "c"}}), "user:a;assistant:b;user:c;");
}

TEST_F(ConversationWindowTest, AsFewOfTheOldestMessagesAsPossibleAreLeftOut) {
  const std::string forty(40, 'x');
  EXPECT_EQ(Kept({{"user", forty}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}, {"user", forty}}),
            "user:c;assistant:d;user:" + forty + ";");
  EXPECT_EQ(Kept({{"user", forty}, {"user", forty}, {"user", forty}}), "user:" + forty + ";");
  EXPECT_EQ(Kept({{"user", forty}, {"user", forty}, {"user", forty}}, /*truncate=*/false).size(), 3 * 46u)
      << "only if the request asks for it";
}

TEST_F(ConversationWindowTest, SystemMessagesAreKept) {
  const std::string thirty(30, 'x');
  EXPECT_EQ(Kept({{"system", "s"}, {"developer", "d"}, {"user", thirty}, {"user", thirty}, {"user", "c"}}),
            "system:s;developer:d;user:" + thirty + ";user:c;");
}

TEST_F(ConversationWindowTest, AResultIsNeverKeptWithoutItsCall) {
  const std::string thirty(30, 'x');
  EXPECT_EQ(
      Kept({{"user", "a"}, {"assistant", thirty}, {"tool", thirty}, {"assistant", "call"}, {"tool", thirty}}),
      "assistant:call;tool:" + thirty + ";")
      << "the last turn alone is too long";
}

TEST_F(ConversationWindowTest, RoomIsKeptForTheAnswer) {
  const std::string twenty(20, 'x');
  const std::vector<Message> messages = {{"user", twenty}, {"user", twenty}, {"user", twenty}};
  const std::string one = "user:" + twenty + ";";
  EXPECT_EQ(Kept(messages), one + one + one) << "an eighth of 100 is kept for the answer, and 78 are used";
  EXPECT_EQ(Kept(messages, true, 30), one + one);
  EXPECT_EQ(Kept(messages, true, 5'000), one) << "at most half of the context is kept for the answer";
}

TEST_F(ConversationWindowTest, AConversationThatCannotFitIsLeftToTheCaller) {
  const std::string long_one(200, 'x');
  EXPECT_EQ(Kept({{"user", "a"}, {"user", long_one}}).size(), 7 + 206u);
  const auto refusing = *text::ChatTemplate::Parse("{{ raise_exception('no') }}", "test");
  deps.chat_template = refusing.get();
  EXPECT_THAT(Kept({{"user", "a"}}), ::testing::HasSubstr("the chat template refuses"));
}

}  // namespace
}  // namespace numoe::serving
