// The state machine around calls: which text is held back and which is passed on, with a vocabulary of bytes.
#include "coordinator/text/parsing/output_parser.h"

#include "tests/unit/coordinator/text/parsing/parse_text.h"

namespace numoe::text {
namespace {

class OutputParserTest : public ::testing::Test {
 protected:
  // Returns the deltas of each token of `text`: "r:", "c:" or "a:" (arguments) and the text, or "+" and the
  // name.
  std::vector<std::string> Deltas(const std::string& text,
                                  OutputParserOptions options = {.calls = true}) const {
    OutputParser parser(tokenizer_, format_, std::move(options));
    std::vector<AnswerDelta> deltas;
    std::vector<std::string> out;
    const auto take = [&] {
      for (const AnswerDelta& delta : deltas) {
        const bool begin = delta.kind == AnswerDelta::Kind::kCallBegin;
        constexpr const char* kNames[] = {"r:", "c:", "+", "a:"};
        out.push_back(kNames[static_cast<int>(delta.kind)] + (begin ? delta.name : delta.text));
      }
      deltas.clear();
    };
    for (const TokenId token : tokenizer_.Encode(text, Specials::kParse)) {
      parser.Push(token, deltas);
      take();
    }
    parser.Finish(deltas);
    take();
    return out;
  }
  using Texts = std::vector<std::string>;

  const ByteTokenizer tokenizer_{KimiControlTokens()};
  const OutputFormat format_ = *ChooseOutputFormat(tokenizer_, "auto", "auto");
};

TEST_F(OutputParserTest, TextIsPassedOnImmediately) {
  EXPECT_EQ(Deltas("<think>ab</think>c"), (Texts{"r:a", "r:b", "c:c"}));
  EXPECT_EQ(Deltas("<think>a \nb </think>\n c d "), (Texts{"r:a", "r: \nb", "c:c", "c: d", "c: "}));
  EXPECT_EQ(Deltas("ü"), (Texts{"c:ü"})) << "whole characters";
  EXPECT_EQ(Deltas("a\xc3<|tool_calls_section_begin|>"), (Texts{"c:a", "c:\xef\xbf\xbd"}))
      << "an incomplete character before a mark";
}

TEST_F(OutputParserTest, ReasoningThatIsNotSeparateIsContentWithItsMarks) {
  const auto said = [this](const std::string& text, OutputParserOptions options) {
    options.separate_reasoning = false;
    std::string whole;
    for (const std::string& delta : Deltas(text, std::move(options))) whole += delta;
    return whole;
  };
  OutputParser parser(tokenizer_, format_, {.calls = true, .separate_reasoning = false});
  std::vector<AnswerDelta> deltas;
  ParsedAnswer answer;
  for (const TokenId token :
       tokenizer_.Encode("<think> a </think>\nb<|tool_calls_section_begin|><|tool_call_begin|>"
                         "functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
                         Specials::kParse))
    parser.Push(token, deltas);
  parser.Finish(deltas);
  for (const AnswerDelta& delta : deltas) answer.Add(delta);
  EXPECT_EQ(answer.content, "<think> a </think>\nb");
  EXPECT_EQ(answer.reasoning, "");
  ASSERT_EQ(answer.calls.size(), 1u);
  EXPECT_EQ(answer.calls[0].name, "f");
  EXPECT_EQ(said("a</think>b", {.prompt_mark = Mark::kThinkBegin}), "c:ac:</think>c:b")
      << "the prompt has opened the reasoning";
}

// The tokens of the content are exactly the content.
TEST_F(OutputParserTest, EveryTokenBelongsToOnePart) {
  const auto parts = [&](const std::string& text, OutputParserOptions options) {
    OutputParser parser(tokenizer_, format_, std::move(options));
    std::vector<AnswerDelta> ignored;
    std::string out;
    for (const TokenId token : tokenizer_.Encode(text, Specials::kParse)) {
      parser.Push(token, ignored);
      out += "rct"[static_cast<size_t>(parser.last_part())];
    }
    return out;
  };
  EXPECT_EQ(parts("<think>ab</think>\n\nc\n", {.calls = false}), "rrrrrrcc");
  EXPECT_EQ(parts("\xc3\xbc c", {.calls = true}), "cccc") << "half a character, too";
  EXPECT_EQ(parts("\n a", {.calls = true}), "ccc")
      << "white space without a mark before it is text of the model";
  EXPECT_EQ(parts("\n a", {.calls = true, .prompt_mark = Mark::kThinkEnd}), "rrc");
  EXPECT_EQ(
      parts("a<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_calls_section_end|>\n",
            {.calls = true}),
      "ctt" + std::string(std::string("functions.f:0").size(), 't') + "t" + "tt" + "tt" + "t");
}

TEST_F(OutputParserTest, TheMarkAtThePromptsEnd) {
  const auto mark = [&](const std::string& prompt) {
    return PromptMark(format_, tokenizer_, tokenizer_.Encode(prompt, Specials::kParse));
  };
  EXPECT_EQ(mark("<|im_end|>a<think>"), Mark::kThinkBegin);
  EXPECT_EQ(mark("<think>so far"), Mark::kThinkBegin) << "the answer continues the reasoning";
  EXPECT_EQ(mark("<think></think>\n\n"), Mark::kThinkEnd);
  EXPECT_EQ(mark("<think></think>\n\nHello"), std::nullopt)
      << "the answer continues content, so its white space counts";
  EXPECT_EQ(mark("<think></think><|im_end|>a"), std::nullopt) << "the mark belongs to an earlier turn";
}

TEST_F(OutputParserTest, WhiteSpaceIsHeldBackOnlyWhereCallsMayFollow) {
  EXPECT_EQ(Deltas("a b", {.calls = false}), (Texts{"c:a", "c: ", "c:b"}));
  EXPECT_EQ(Deltas("a b", {.calls = true}), (Texts{"c:a", "c: b"}));
}

TEST_F(OutputParserTest, ArgumentsStreamFromTheFirstByte) {
  const std::string head =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>";
  EXPECT_EQ(Deltas(head + " {}<|tool_call_end|>"), (Texts{"+f", "a:{", "a:}"}));
  EXPECT_EQ(Deltas(head), Texts{});
}

TEST_F(OutputParserTest, WithoutMarksEverythingIsContentImmediately) {
  const OutputFormat raw;
  OutputParser parser(tokenizer_, raw, {.calls = true});
  std::vector<AnswerDelta> deltas;
  for (const TokenId token : tokenizer_.Encode(" <think>\n", Specials::kParse)) parser.Push(token, deltas);
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].text, " <think>\n");
}

TEST_F(OutputParserTest, SpecialTokensAreNotText) {
  EXPECT_EQ(Deltas("a<|im_end|>b"), (Texts{"c:a", "c:b"}));
}

TEST_F(OutputParserTest, ReasoningTokensAreCountedWithoutTheirMarks) {
  OutputParser parser(tokenizer_, format_, {});
  std::vector<AnswerDelta> deltas;
  for (const TokenId token : tokenizer_.Encode("<think>abc </think>de", Specials::kParse))
    parser.Push(token, deltas);
  EXPECT_EQ(parser.reasoning_tokens(), 4);
}

TEST_F(OutputParserTest, TokensAfterTheEndAreIgnored) {
  OutputParser parser(tokenizer_, format_, {});
  std::vector<AnswerDelta> deltas;
  parser.Finish(deltas);
  parser.Push('a', deltas);
  parser.Finish(deltas);
  EXPECT_TRUE(parser.complete() && deltas.empty());
}

}  // namespace
}  // namespace numoe::text
