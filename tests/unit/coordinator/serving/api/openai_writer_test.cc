// Answers as OpenAI's objects: every event is one SSE frame and contains only what was asked for.
#include "coordinator/serving/api/openai_writer.h"

#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/one_answer.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

// The JSON of the SSE events: "data: ", one line, an empty line.
std::vector<ordered_json> FromOpenaiSse(std::string_view frames) {
  std::vector<ordered_json> events;
  while (!frames.empty()) {
    const size_t end = frames.find("\n\n");
    const std::string_view frame = frames.substr(0, end);
    EXPECT_EQ(frame.substr(0, 6), "data: ") << frame;
    EXPECT_EQ(frame.find('\n'), std::string_view::npos)
        << "a line break inside the event ends it early: " << frame;
    if (frame != "data: [DONE]") events.push_back(ordered_json::parse(frame.substr(6)));
    frames.remove_prefix(end + 2);
  }
  return events;
}

class OpenAiWriterTest : public ::testing::Test {
 protected:
  OneAnswer Make(const GenerationRequest& request) const {
    return OneAnswer(request,
                     {.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_});
  }
  engine::TokenEvent Said(const std::string& text,
                          engine::FinishReason finish = engine::FinishReason::kNone) const {
    engine::TokenEvent event{
        .tokens = tokenizer_.Encode(text, text::Specials::kAsText), .finish = finish, .error = {}};
    for (const TokenId token : event.tokens) {
      execution::TokenLogprobs logprob;
      logprob.chosen = {token, -0.25f};
      logprob.top = {{token, -0.25f}, {'z', -2.0f}};
      event.logprobs.push_back(logprob);
    }
    return event;
  }

  const ByteTokenizer tokenizer_{{"[EOS]"}};
  const text::OutputFormat format_{};  // no marks: everything is content
  const std::vector<TokenId> eos_ = {256};
  const std::vector<TokenId> prompt_ = {1, 2, 3, 4, 5};
};

TEST_F(OpenAiWriterTest, TheFirstChunkOfAChatIsTheRoleAndTheLastHasTheReason) {
  OneAnswer answer = Make(ChatOf());
  answer.Take(Said("a\nb"));
  ASSERT_EQ(FromOpenaiSse(answer.last_events).size(), 2u);
  const ordered_json first = FromOpenaiSse(answer.last_events).at(0);
  EXPECT_EQ(first.at("id"), "id-1");
  EXPECT_EQ(first.at("object"), "chat.completion.chunk");
  EXPECT_EQ(first.at("model"), "m");
  EXPECT_EQ(first.at("system_fingerprint"), "fp_1");
  EXPECT_EQ(first.at("choices")[0].at("delta"), ordered_json({{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(FromOpenaiSse(answer.last_events).at(1).at("choices")[0].at("delta"),
            ordered_json({{"content", "a\nb"}}));
  EXPECT_TRUE(first.at("choices")[0].at("finish_reason").is_null());
  EXPECT_TRUE(first.at("choices")[0].at("logprobs").is_null());
  EXPECT_FALSE(first.contains("usage") || first.contains("prompt_token_ids"));
  answer.Take(Said("c"));
  EXPECT_EQ(FromOpenaiSse(answer.last_events).at(0).at("choices")[0].at("delta"),
            ordered_json({{"content", "c"}}));
  answer.Take({.finish = engine::FinishReason::kLength, .error = {}});
  const ordered_json last = FromOpenaiSse(answer.last_events).at(0);
  EXPECT_EQ(last.at("choices")[0].at("delta"), ordered_json::object());
  EXPECT_EQ(last.at("choices")[0].at("finish_reason"), "length");
  EXPECT_EQ(answer.End(), kSseDone) << "usage is sent only if it was asked for";
}

TEST_F(OpenAiWriterTest, UsageComesLastAndOnRequestInEveryChunk) {
  GenerationRequest request;
  request.include_usage = true;
  OneAnswer answer = Make(request);
  answer.Take(Said("abc"));
  const ordered_json chunk = FromOpenaiSse(answer.last_events).at(0);
  EXPECT_EQ(chunk.at("object"), "text_completion");
  EXPECT_EQ(chunk.at("choices")[0].at("text"), "abc");
  EXPECT_TRUE(chunk.at("usage").is_null());
  answer.Take({.finish = engine::FinishReason::kLength, .error = {}});
  const ordered_json usage = FromOpenaiSse(answer.End()).at(0);
  EXPECT_TRUE(usage.at("choices").empty());
  EXPECT_EQ(usage.at("usage"), ordered_json({{"prompt_tokens", 5},
                                             {"completion_tokens", 3},
                                             {"total_tokens", 8},
                                             {"prompt_tokens_details", {{"cached_tokens", 0}}}}));
  EXPECT_EQ(ordered_json::parse(answer.Whole()).at("choices")[0].at("text"), "abc");
  request.continuous_usage = true;
  OneAnswer continuous = Make(request);
  continuous.Take(Said("ab"));
  EXPECT_EQ(FromOpenaiSse(continuous.last_events).at(0).at("usage").at("completion_tokens"), 2);
}

TEST_F(OpenAiWriterTest, LogprobsInBothShapes) {
  GenerationRequest chat = ChatOf();
  chat.sampling.logprobs = 2;
  OneAnswer answer = Make(chat);
  answer.Take(Said("hi", engine::FinishReason::kLength));
  const ordered_json whole = ordered_json::parse(answer.Whole()).at("choices")[0].at("logprobs");
  EXPECT_TRUE(FromOpenaiSse(answer.events).at(0).at("choices")[0].at("logprobs").is_null())
      << "the chunk of the role";
  EXPECT_EQ(whole, FromOpenaiSse(answer.events).at(1).at("choices")[0].at("logprobs"));
  ASSERT_EQ(whole.at("content").size(), 2u);
  EXPECT_EQ(whole.at("content")[0].at("token"), "h");
  EXPECT_EQ(whole.at("content")[0].at("bytes"), ordered_json({104}));
  EXPECT_EQ(whole.at("content")[0].at("logprob"), -0.25);
  EXPECT_EQ(whole.at("content")[0].at("top_logprobs").size(), 2u);
  GenerationRequest text;
  text.sampling.logprobs = 2;
  OneAnswer completion = Make(text);
  completion.Take(Said("h"));
  completion.Take(Said("i", engine::FinishReason::kLength));
  const std::vector<ordered_json> events = FromOpenaiSse(completion.events);
  EXPECT_EQ(events.at(1).at("choices")[0].at("logprobs").at("text_offset"), ordered_json({1}));
  EXPECT_EQ(events.at(1).at("choices")[0].at("logprobs").at("tokens"), ordered_json({"i"}));
  EXPECT_EQ(events.at(1).at("choices")[0].at("logprobs").at("top_logprobs")[0],
            ordered_json({{"i", -0.25}, {"z", -2.0}}));
}

TEST_F(OpenAiWriterTest, AnEchoedPromptsFirstTokenHasNoLogprob) {
  GenerationRequest request;
  request.echo = true;
  request.sampling.logprobs = request.sampling.prompt_logprobs = 0;
  const std::vector<TokenId> prompt = tokenizer_.Encode("ab", text::Specials::kAsText);
  OneAnswer answer(request,
                   {.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt});
  engine::TokenEvent event = Said("c", engine::FinishReason::kLength);
  execution::TokenLogprobs second;
  second.chosen = {'b', -1.0f};
  event.prompt_logprobs = {second};
  answer.Take(event);
  const ordered_json choice = ordered_json::parse(answer.Whole()).at("choices")[0];
  EXPECT_EQ(choice.at("text"), "abc");
  EXPECT_EQ(choice.at("logprobs").at("tokens"), ordered_json({"a", "b", "c"}));
  EXPECT_EQ(choice.at("logprobs").at("token_logprobs"), ordered_json({nullptr, -1.0, -0.25}));
  EXPECT_EQ(choice.at("logprobs").at("text_offset"), ordered_json({0, 1, 2}));
}

TEST_F(OpenAiWriterTest, TokenIdsOnRequest) {
  GenerationRequest request = ChatOf();
  request.return_token_ids = true;
  OneAnswer answer = Make(request);
  answer.Take(Said("hi", engine::FinishReason::kLength));
  const ordered_json whole = ordered_json::parse(answer.Whole());
  EXPECT_EQ(whole.at("prompt_token_ids"), ordered_json(prompt_));
  EXPECT_EQ(whole.at("choices")[0].at("token_ids"), ordered_json({104, 105}));
  const std::vector<ordered_json> events = FromOpenaiSse(answer.events);
  EXPECT_EQ(events.at(0).at("prompt_token_ids"), ordered_json(prompt_));
  EXPECT_FALSE(events.at(0).at("choices")[0].contains("token_ids"));
  EXPECT_EQ(events.at(1).at("choices")[0].at("token_ids"), ordered_json({104, 105}));
  EXPECT_FALSE(events.at(1).contains("prompt_token_ids"));
}

TEST_F(OpenAiWriterTest, AChunkWithoutTokensHasNoLogprobs) {
  for (GenerationRequest request : {ChatOf(), GenerationRequest()}) {
    request.sampling.logprobs = 0;
    OneAnswer answer = Make(request);
    answer.Take(Said("a"));
    answer.Take({.finish = engine::FinishReason::kLength, .error = {}});
    const ordered_json end = FromOpenaiSse(answer.last_events).at(0).at("choices")[0];
    EXPECT_EQ(end.at("finish_reason"), "length");
    EXPECT_TRUE(end.at("logprobs").is_null());
  }
}

// OpenAI: "log probability information" for "message content tokens".
TEST_F(OpenAiWriterTest, LogprobsOfContentCoverItsTokens) {
  const ByteTokenizer marks{{"<think>", "</think>"}};
  text::OutputFormat format;
  format.marks = {{256, text::Mark::kThinkBegin}, {257, text::Mark::kThinkEnd}};
  GenerationRequest chat = ChatOf();
  chat.sampling.logprobs = 0;
  OneAnswer answer(chat, {.tokenizer = marks, .format = format, .eos_token_ids = eos_, .prompt = prompt_});
  std::string streamed;
  for (const TokenId token : std::vector<TokenId>{256, 'h', 'm', 257, '\n', '\n', 'H', 'i', '\n'}) {
    execution::TokenLogprobs logprobs;
    logprobs.chosen = {token, -0.5f};
    answer.Take({.tokens = {token}, .error = {}, .logprobs = {logprobs}});
  }
  answer.Take({.finish = engine::FinishReason::kLength, .error = {}});
  const ordered_json choice = ordered_json::parse(answer.Whole()).at("choices")[0];
  const auto said = [](const ordered_json& list) {
    std::string text;
    for (const ordered_json& token : list) text += token.at("token").get<std::string>();
    return text;
  };
  EXPECT_EQ(said(choice.at("logprobs").at("content")), choice.at("message").at("content"));
  EXPECT_EQ(said(choice.at("logprobs").at("reasoning_content")), "<think>hm</think>\n\n");
  EXPECT_FALSE(choice.at("logprobs").contains("tool_calls"));
  std::string content;
  for (const ordered_json& event : FromOpenaiSse(answer.events)) {
    const ordered_json& logprobs = event.at("choices")[0].at("logprobs");
    if (!logprobs.is_null()) content += said(logprobs.at("content"));
  }
  EXPECT_EQ(content, "Hi\n");
}

}  // namespace
}  // namespace numoe::serving
