// Random answers of every format, sense and nonsense: the JSON a client reads from the stream is the JSON of
// the whole answer, however the tokens fall into events.
#include <random>

#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/chat_stream.h"
#include "tests/support/one_answer.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;

struct Format {
  const char* name;
  std::vector<std::string> control;
  std::string call;  // a good one
};

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"Kimi", KimiControlTokens(),
       "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|>"},
      {"DeepSeek", DeepSeekControlTokens(),
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": 1}\n```<｜tool▁call▁end｜>"},
      {"Qwen", QwenControlTokens(),
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"}};
  return formats;
}

// A sequence of whole calls, reasoning, pieces of both, and single control tokens.
std::string RandomAnswer(const Format& format, std::mt19937& random) {
  const std::vector<std::string> pieces = {" ",
                                           "\n\n",
                                           "Hello ",
                                           "ü世",
                                           "\xe4\xb8",
                                           "{\"x\": 1}",
                                           "functions.f:0",
                                           "function",
                                           "f\n```json\n",
                                           "\n```",
                                           "}",
                                           "\"",
                                           "{\"name\": \"f\", \"arguments\": ",
                                           "<|tool_call_section_begin|>",
                                           "<|tool_",
                                           "END",
                                           "3",
                                           "<think>hm ",
                                           "</think>",
                                           format.call,
                                           format.call};
  std::string answer = random() % 2 == 0 ? "<think>" : "";
  for (size_t i = random() % 12; i > 0; --i) {
    const size_t choice = random() % (pieces.size() + format.control.size());
    answer += choice < pieces.size() ? pieces[choice] : format.control[choice - pieces.size()];
  }
  return answer;
}

class AnswerStreamTest : public ::testing::TestWithParam<size_t> {
 protected:
  static ordered_json Fields(const ordered_json& message) {
    ordered_json out = ordered_json::object();
    for (const char* field : {"reasoning_content", "reasoning", "tool_calls"})
      out[field] = message.value(field, ordered_json());
    const auto content = message.find("content");
    out["content"] = content == message.end() || content->is_null() ? ordered_json("") : *content;
    return out;
  }
};

TEST_P(AnswerStreamTest, StreamsAddUpToWholeAnswers) {
  const Format& said = Formats()[GetParam()];
  const ByteTokenizer tokenizer(said.control);
  const OutputFormat format = *ChooseOutputFormat(tokenizer, "auto", "auto");
  const std::vector<TokenId> eos, prompt = {1};
  std::mt19937 random(7);
  size_t calls = 0, reasoning = 0, contents = 0;
  for (int run = 0; run < 1500; ++run) {
    GenerationRequest request = ChatOf();
    if (random() % 8 != 0)
      request.conversation->tools = ordered_json::parse(R"([{"function": {"name": "f"}}])");
    request.conversation->calls.parallel = random() % 4 != 0;
    if (random() % 3 == 0) request.stop = {"END", "lo "};
    const std::vector<TokenId> tokens = tokenizer.Encode(RandomAnswer(said, random), Specials::kParse);
    OneAnswer answer(request,
                     {.tokenizer = tokenizer, .format = format, .eos_token_ids = eos, .prompt = prompt});
    for (size_t at = 0; !answer.done();) {
      const size_t length = std::min(tokens.size() - at, 1 + random() % 5);
      TokenEvent event{.tokens = {tokens.begin() + at, tokens.begin() + at + length}, .error = {}};
      at += length;
      if (at == tokens.size()) event.finish = random() % 2 == 0 ? FinishReason::kStop : FinishReason::kLength;
      answer.Take(event);
    }
    const ordered_json choice = ordered_json::parse(answer.Whole()).at("choices")[0];
    const ChatStream stream = ReadChatStream(answer.events);
    ASSERT_EQ(Fields(stream.message), Fields(choice.at("message"))) << tokenizer.Decode(tokens, false);
    ASSERT_EQ(stream.finish_reason, choice.at("finish_reason"));
    calls += choice.at("message").value("tool_calls", ordered_json::array()).size();
    reasoning += choice.at("message").contains("reasoning");
    contents += !Fields(stream.message)["content"].get<std::string>().empty();
  }
  EXPECT_GT(calls, 100u) << "the runs must reach what they test";
  EXPECT_GT(reasoning, 100u);
  EXPECT_GT(contents, 300u);
}

INSTANTIATE_TEST_SUITE_P(Formats, AnswerStreamTest, ::testing::Range(size_t{0}, Formats().size()),
                         [](const auto& format) { return Formats()[format.param].name; });

}  // namespace
}  // namespace numoe
