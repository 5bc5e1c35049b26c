// DeepSeek's two forms of calls, and incomplete calls.
#include "coordinator/text/parsing/deepseek_calls.h"

#include "tests/unit/coordinator/text/parsing/parse_text.h"

namespace numoe::text {
namespace {

class DeepSeekCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto format = ChooseOutputFormat(tokenizer_, "auto", "auto");
    ASSERT_TRUE(format.ok()) << format.status();
    ASSERT_EQ(format->tools, ToolSyntax::kDeepSeek);
    format_ = *format;
  }
  static std::string Call(const std::string& head, const std::string& body) {
    return "<｜tool▁call▁begin｜>" + head + "<｜tool▁sep｜>" + body + "<｜tool▁call▁end｜>";
  }
  static std::string Section(const std::string& calls) {
    return "<｜tool▁calls▁begin｜>" + calls + "<｜tool▁calls▁end｜>";
  }
  ParsedAnswer Parse(const std::string& text) const { return ParseText(tokenizer_, format_, text); }
  std::string Calls(const std::string& calls) const { return CallsOf(Parse(Section(calls))); }

  const ByteTokenizer tokenizer_{DeepSeekControlTokens()};
  OutputFormat format_;
};

constexpr char kOld[] = "get_weather\n```json\n{\"city\": \"`Paris`\"}\n```";

TEST_F(DeepSeekCallsTest, BothForms) {
  EXPECT_EQ(Calls(Call("get_weather", "{\"city\": \"Paris\"}")), "get_weather({\"city\": \"Paris\"})");
  EXPECT_EQ(Calls(Call("function", kOld)), "get_weather({\"city\": \"`Paris`\"})");
  EXPECT_EQ(Calls(Call("function", kOld) + "\n" + Call("function", "f\n```json\n{}\n```")),
            "get_weather({\"city\": \"`Paris`\"}) f({})");
  EXPECT_EQ(Calls(Call("function", "{\"a\": 1}")), "function({\"a\": 1})") << "V3.1, a tool of that name";
}

TEST_F(DeepSeekCallsTest, ReasoningContentAndCalls) {
  const ParsedAnswer answer = Parse("<think>\nhm\n</think>\n\nI look.\n" + Section(Call("f.g-h", " {} ")));
  EXPECT_EQ(answer.reasoning, "hm");
  EXPECT_EQ(answer.content, "I look.");
  EXPECT_EQ(CallsOf(answer), "f.g-h({})");
  EXPECT_EQ(answer.calls[0].id, "functions.f.g-h:0");
}

TEST_F(DeepSeekCallsTest, ThePromptOpensOrClosesTheReasoning) {
  const auto prompt = [&](const std::string& text) { return tokenizer_.Encode(text, Specials::kParse); };
  for (const char* end : {"<｜Assistant｜><think>\n", "<｜Assistant｜></think>", "<｜Assistant｜>"}) {
    const std::optional<Mark> mark =
        PromptMark(format_, tokenizer_, prompt(std::string("<｜User｜>hi") + end));
    const ParsedAnswer answer =
        ParseText(tokenizer_, format_, "hm\n</think>\n\nyes", {.calls = true, .prompt_mark = mark});
    EXPECT_EQ(answer.reasoning, mark == Mark::kThinkBegin ? "hm" : "") << end;
    EXPECT_EQ(answer.content == "yes", mark == Mark::kThinkBegin) << answer.content;
  }
  EXPECT_EQ(
      PromptMark(format_, tokenizer_, prompt("<think>x<｜end▁of▁sentence｜><｜User｜>hi<｜Assistant｜>")),
      std::nullopt)
      << "the mark belongs to another turn";
}

TEST_F(DeepSeekCallsTest, IncompleteCalls) {
  EXPECT_EQ(Calls(Call("f", "")), "f({})");
  EXPECT_EQ(Calls(Call("function", "f\n```json\n```")), "f({})");
  EXPECT_EQ(Calls(Call("function", "")), "function({})");
  EXPECT_EQ(Calls(Call("", "{}")), "") << "no name at all";
  EXPECT_EQ(Calls("<｜tool▁call▁begin｜>f<｜tool▁call▁end｜>"), "f({})") << "no separator";
  const std::string open = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f";
  EXPECT_EQ(CallsOf(Parse(open)), "");
  EXPECT_EQ(CallsOf(Parse(open + "<｜tool▁sep｜>")), "");
  EXPECT_EQ(CallsOf(Parse(open + "<｜tool▁sep｜>{\"a\": \"b ")), "f({\"a\": \"b)");
  EXPECT_EQ(CallsOf(Parse(open + "<｜tool▁sep｜>{}" + Call("g", "{}"))), "f({}) g({})") << "no end mark";
}

}  // namespace
}  // namespace numoe::text
