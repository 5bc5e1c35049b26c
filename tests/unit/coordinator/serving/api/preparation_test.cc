// From a body to prompts and constraints, and every error on the way.
#include "coordinator/serving/api/preparation.h"

#include "coordinator/serving/api/messages_request.h"
#include "coordinator/serving/api/native_request.h"
#include "coordinator/serving/api/openai_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/api_fixture.h"

namespace numoe::serving {
namespace {

using ::testing::HasSubstr;

class PreparationTest : public ApiFixture {
 protected:
  Prepared Good(std::string_view body, const RequestReader& read = ReadTextRequest) {
    auto prepared = Prepare(body, read, deps);
    const auto* error = std::get_if<net::ApiError>(&prepared);
    EXPECT_EQ(error, nullptr) << error->message;
    return error != nullptr ? Prepared() : std::get<Prepared>(std::move(prepared));
  }
  net::ApiError Refused(std::string_view body, const RequestReader& read = ReadTextRequest) {
    auto prepared = Prepare(body, read, deps);
    const auto* error = std::get_if<net::ApiError>(&prepared);
    EXPECT_NE(error, nullptr) << body;
    return error == nullptr ? net::ApiError{.http_status = 0} : *error;
  }
};

TEST_F(PreparationTest, ConversationsAreRenderedAndTextIsTokenised) {
  EXPECT_EQ(Good(R"({"messages": [{"role": "user", "content": "hi"}]})", ReadChatRequest).prompts,
            (std::vector<std::vector<TokenId>>{tokenizer_.Encode("user:hi;", text::Specials::kAsText)}));
  const Prepared two = Good(R"({"prompt": ["ab", "c"]})");
  ASSERT_EQ(two.prompts.size(), 2u);
  EXPECT_EQ(two.prompts[0], (std::vector<TokenId>{'a', 'b'}));
  EXPECT_EQ(Good(R"({"prompt": [7, 8]})").prompts, (std::vector<std::vector<TokenId>>{{7, 8}}));
}

TEST_F(PreparationTest, EveryAnswerHasItsOwnConstraint) {
  const Prepared prepared = Good(R"({"prompt": ["a", "b"], "n": 3, "regex": "x+"})");
  ASSERT_EQ(prepared.constraints.size(), 6u);
  for (const auto& constraint : prepared.constraints) EXPECT_NE(constraint, nullptr);
  const Prepared free = Good(R"({"prompt": "a", "n": 2})");
  ASSERT_EQ(free.constraints.size(), 2u);
  EXPECT_EQ(free.constraints[0], nullptr);
}

TEST_F(PreparationTest, BodiesThatAreNotObjectsAreRefused) {
  EXPECT_THAT(Refused("{").message, HasSubstr("the body is "));
  EXPECT_EQ(Refused("[]").message, "the body must be a JSON object");
  EXPECT_EQ(Refused("[]").http_status, 400);
}

TEST_F(PreparationTest, OtherModelsAreNotFound) {
  EXPECT_FALSE(CheckModel({.model = "m"}, deps).has_value());
  EXPECT_FALSE(CheckModel({.model = ""}, deps).has_value());
  const net::ApiError error = Refused(R"({"model": "gpt", "prompt": "a"})");
  EXPECT_EQ(error.http_status, 404);
  EXPECT_EQ(error.message, "no such model: gpt; this server has m");
  EXPECT_EQ(error.code, "model_not_found");
}

TEST_F(PreparationTest, LockedValuesAreSetAndCannotBeChanged) {
  deps.locked = *ParseSamplingLocks({"temperature=0.5", "top_k=3"});
  EXPECT_EQ(Good(R"({"prompt": "a", "top_k": 3, "temperature": null})").request.sampling.temperature, 0.5);
  EXPECT_EQ(Good(R"({"prompt": "a"})").request.sampling.top_k, 3);
  const net::ApiError error = Refused(R"({"prompt": "a", "temperature": 1})");
  EXPECT_EQ(error.message, "'temperature': this server has locked it at 0.5, found 1; leave it out");
  EXPECT_EQ(error.param, "temperature");
}

TEST_F(PreparationTest, PromptsFitTheContextAndTheVocabulary) {
  const net::ApiError longer = Refused(R"({"prompt": ")" + std::string(100, 'x') + "\"}");
  EXPECT_EQ(
      longer.message,
      "This model's maximum context length is 100 tokens. However, you requested 116 tokens (100 in the "
      "prompt, 16 in the completion). Please reduce the length of the prompt or completion.");
  EXPECT_EQ(longer.param, "prompt");
  EXPECT_EQ(longer.code, "context_length_exceeded");
  EXPECT_EQ(Good(R"({"prompt": ")" + std::string(99, 'x') + "\"}").prompts[0].size(), 99u);
  EXPECT_EQ(Refused(R"({"prompt": [5, 257]})").message, "token id 257 is outside the vocabulary of 257");
  EXPECT_EQ(Refused(R"({"prompt": ""})").message, "the prompt is empty");
  EXPECT_EQ(Refused(R"({"prompt": "a", "stop_token_ids": [300]})").http_status, 400);
}

// LiteLLM, LangChain and agents search for these words and then shorten the conversation.
TEST_F(PreparationTest, ATooLongConversationIsRefusedInTheDialectsWords) {
  const std::string messages =
      R"("messages": [{"role": "user", "content": ")" + std::string(200, 'x') + "\"}]";
  const net::ApiError chat = Refused("{" + messages + R"(, "max_tokens": 7})", ReadChatRequest);
  EXPECT_EQ(
      chat.message,
      "This model's maximum context length is 100 tokens. However, you requested 213 tokens (206 in the "
      "messages, 7 in the completion). Please reduce the length of the messages or completion.");
  EXPECT_EQ(chat.param, "messages");
  EXPECT_EQ(chat.code, "context_length_exceeded");
  const net::ApiError anthropic = Refused("{" + messages + R"(, "max_tokens": 7})", ReadMessagesRequest);
  EXPECT_EQ(anthropic.message, "prompt is too long: 206 tokens > 99 maximum");
  const net::ApiError native = Refused(R"({"text": ")" + std::string(200, 'x') + "\"}", ReadNativeRequest);
  EXPECT_EQ(native.param, "text");
  EXPECT_THAT(native.message, HasSubstr("maximum context length is 100 tokens"));
}

TEST_F(PreparationTest, PromptsThatAreTooLongMayBeTruncated) {
  const std::string body = R"({"prompt": ")" + std::string(150, 'x') + R"(yz", "max_tokens": 10)";
  const auto prompt = [&](const std::string& more) { return Good(body + more + "}").prompts[0]; };
  EXPECT_EQ(prompt(R"(, "truncate_prompt_tokens": 3)"), (std::vector<TokenId>{'x', 'y', 'z'}));
  EXPECT_EQ(prompt(R"(, "truncate_prompt_tokens": 2, "truncation_side": "right")"),
            (std::vector<TokenId>{'x', 'x'}));
  EXPECT_EQ(prompt(R"(, "truncate_prompt_tokens": -1)").size(), 90u);
  EXPECT_EQ(Refused(body + R"(, "truncate_prompt_tokens": 101})").param, "truncate_prompt_tokens");
  EXPECT_EQ(Refused(R"({"prompt": "a", "max_tokens": 100, "truncate_prompt_tokens": -1})").param,
            "truncate_prompt_tokens");
  EXPECT_EQ(Refused(R"({"prompt": ")" + std::string(9'000, 'x') + R"(", "truncate_prompt_tokens": 5})").code,
            "context_length_exceeded");
  EXPECT_EQ(Good(R"({"messages": [{"role": "user", "content": "hi"}], "truncate_prompt_tokens": 2})",
                 ReadChatRequest)
                .prompts[0],
            (std::vector<TokenId>{'i', ';'}));
}

// A client that writes a whole prompt also writes the model's control tokens.
TEST_F(PreparationTest, TextsMayContainControlTokens) {
  EXPECT_EQ(Good(R"({"prompt": "a<end>b"})").prompts[0], (std::vector<TokenId>{'a', kEnd, 'b'}));
  EXPECT_EQ(Good(R"({"text": "<end>"})", ReadNativeRequest).prompts[0], (std::vector<TokenId>{kEnd}));
  const std::vector<TokenId> said =
      Good(R"({"messages": [{"role": "user", "content": "<end>"}]})", ReadChatRequest).prompts[0];
  EXPECT_THAT(said, ::testing::Not(::testing::Contains(kEnd)))
      << "a message's content never becomes a control token";
}

TEST_F(PreparationTest, TextsBeginWithTheModelsFirstToken) {
  const ByteTokenizer begins({"!<end>", "!<bos>"}, {}, "<bos>");
  const TokenId bos = *begins.SpecialId("<bos>");
  const auto tokens = [&](const std::string& body) {
    auto json = nlohmann::ordered_json::parse(body);
    JsonFields in(json);
    GenerationRequest request;
    ReadPrompts(in, "prompt", request);
    ApiDeps used{.engine = deps.engine,
                 .tokenizer = begins,
                 .chat_template = deps.chat_template,
                 .metrics = deps.metrics,
                 .model_names = deps.model_names,
                 .fingerprint = "",
                 .model_path = "",
                 .max_model_len = 100,
                 .defaults = {},
                 .eos_token_ids = deps.eos_token_ids,
                 .output_format = {},
                 .grammars = deps.grammars,
                 .locked = {},
                 .health = nullptr,
                 .live = nullptr,
                 .expert_stats = nullptr,
                 .server_info = {}};
    return std::get<std::vector<std::vector<TokenId>>>(TokenisePrompts(request, used))[0];
  };
  EXPECT_EQ(tokens(R"({"prompt": "a"})"), (std::vector<TokenId>{bos, 'a'}));
  EXPECT_EQ(tokens(R"({"prompt": "<bos>a"})"), (std::vector<TokenId>{bos, 'a'})) << "once";
  EXPECT_EQ(tokens(R"({"prompt": "a", "add_special_tokens": false})"), (std::vector<TokenId>{'a'}));
  EXPECT_EQ(tokens(R"({"prompt": [97]})"), (std::vector<TokenId>{'a'})) << "ids are not changed";
}

TEST_F(PreparationTest, MinTokensCannotExceedMaxTokens) {
  const net::ApiError error = Refused(R"({"prompt": "a", "max_tokens": 3, "min_tokens": 4})");
  EXPECT_EQ(error.param, "min_tokens");
  EXPECT_EQ(error.message, "'min_tokens': expected at most max_tokens, which is 3, found 4");
  EXPECT_EQ(Good(R"({"prompt": "a", "max_tokens": 3, "min_tokens": 3})").request.sampling.min_tokens, 3);
  EXPECT_EQ(Good(R"({"messages": [{"role": "user", "content": "a"}], "min_tokens": 50})", ReadChatRequest)
                .request.sampling.min_tokens,
            50);
}

TEST_F(PreparationTest, LimitsBecomeConstraints) {
  EXPECT_NE(Good(R"({"prompt": "a", "bad_words": ["x"]})").constraints[0], nullptr);
  EXPECT_EQ(Refused(R"({"prompt": "a", "thinking_token_budget": 5})").param, "thinking_token_budget");
  EXPECT_EQ(Refused(R"({"prompt": "a", "mirostat": 2})").param, "mirostat");
}

TEST_F(PreparationTest, TemplatesMayRefuseAConversation) {
  const auto refusing = *text::ChatTemplate::Parse("{{ raise_exception('no') }}", "test");
  deps.chat_template = refusing.get();
  EXPECT_THAT(Refused(R"({"messages": [{"role": "user", "content": "hi"}]})", ReadChatRequest).message,
              HasSubstr("the chat template refuses this conversation: "));
  deps.chat_template = nullptr;
  EXPECT_THAT(Refused(R"({"messages": [{"role": "user", "content": "hi"}]})", ReadChatRequest).message,
              HasSubstr("no chat template; use /v1/completions"));
}

TEST_F(PreparationTest, AllowedTokensMustBeAbleToBeginTheStructure) {
  EXPECT_EQ(Refused(R"({"prompt": "a", "regex": "x+", "allowed_token_ids": [97]})").param,
            "allowed_token_ids");
  EXPECT_EQ(Good(R"({"prompt": "a", "regex": "x+", "allowed_token_ids": [97, 120]})").constraints.size(), 1u);
}

}  // namespace
}  // namespace numoe::serving
