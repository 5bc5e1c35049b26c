// Qwen3's calls: objects with fields in any order, and malformed ones.
#include "coordinator/text/parsing/hermes_calls.h"

#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/text/parsing/parse_text.h"

namespace numoe::text {
namespace {

class HermesCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto format = ChooseOutputFormat(tokenizer_, "auto", "auto");
    ASSERT_TRUE(format.ok()) << format.status();
    ASSERT_EQ(format->tools, ToolSyntax::kHermes);
    format_ = *format;
  }
  ParsedAnswer Parse(const std::string& text) const { return ParseText(tokenizer_, format_, text); }
  // Returns the calls of a block; "content: ..." if it is not a call.
  std::string Block(const std::string& object) const {
    const ParsedAnswer answer = Parse("<tool_call>\n" + object + "\n</tool_call>");
    return answer.content.empty() ? CallsOf(answer) : "content: " + answer.content;
  }

  const ByteTokenizer tokenizer_{QwenControlTokens()};
  OutputFormat format_;
};

TEST_F(HermesCallsTest, ReasoningContentAndCalls) {
  const ParsedAnswer answer = Parse(
      "<think>\nBoth cities.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"w\", \"arguments\": {\"city\": "
      "\"Paris\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"w\", \"arguments\": {\"city\": "
      "\"Rom\"}}\n</tool_call>");
  EXPECT_EQ(answer.reasoning, "Both cities.");
  EXPECT_EQ(answer.content, "I look.");
  EXPECT_EQ(CallsOf(answer), R"(w({"city": "Paris"}) w({"city": "Rom"}))");
  EXPECT_EQ(answer.calls[1].id, "functions.w:1");
}

TEST_F(HermesCallsTest, ThinkingDisabledByThePrompt) {
  const auto mark =
      PromptMark(format_, tokenizer_,
                 tokenizer_.Encode("<|im_start|>assistant\n<think>\n\n</think>\n\n", Specials::kParse));
  const ParsedAnswer answer = ParseText(tokenizer_, format_, "yes", {.calls = true, .prompt_mark = mark});
  EXPECT_EQ(answer.reasoning, "");
  EXPECT_EQ(answer.content, "yes");
}

TEST_F(HermesCallsTest, ArgumentsAreAsWritten) {
  for (const char* arguments :
       {"{}", "{ }", R"({"a":{"b":[1,{"c":"}"}]},"d":"\"}{\\"})", "{\n \"a\" : 1.50 ,\n\"ü\": null}",
        R"({"html": "<b>x</b> </tool_cal"})", R"({"think": "<think>no</think>"})"}) {
    EXPECT_EQ(Block(std::string(R"({"name": "f", "arguments": )") + arguments + "}"),
              std::string("f(") + arguments + ")");
    EXPECT_EQ(Block(std::string(R"({"arguments":)") + arguments + R"(  , "name":"f"})"),
              std::string("f(") + arguments + ")")
        << "the name follows the arguments";
  }
}

TEST_F(HermesCallsTest, OtherFieldsAndValues) {
  EXPECT_EQ(
      Block(R"({"id": 7, "name": "f", "x": {"arguments": 1, "name": "g"}, "arguments": {"a": 1}, "y": [}]})"),
      R"(f({"a": 1}))");
  EXPECT_EQ(Block(R"({"name": "f"})"), "f({})");
  EXPECT_EQ(Block(R"({"name": "f", "arguments": null})"), "f({})");
  EXPECT_EQ(Block(R"({"name": "f", "arguments": "{\"a\": \"b\\n\"}"})"), R"(f({"a": "b\n"}))")
      << "JSON inside a string";
  EXPECT_EQ(Block(R"({"name": "f", "arguments": ""})"), "f({})");
  EXPECT_EQ(Block(R"({"name": "f", "arguments": "hello"})"), R"(f("hello"))")
      << "another string remains a string";
  EXPECT_EQ(Block(R"({"name": "f", "arguments": "[1]"})"), R"(f("[1]"))");
  EXPECT_EQ(Block(R"({"name": "f", "parameters": {"a": 1}})"), R"(f({"a": 1}))");
  EXPECT_EQ(Block(R"({"parameters": {"a": 1}, "name": "f"})"), R"(f({"a": 1}))");
  EXPECT_EQ(Block(R"({"name": "f", "arguments": [1]})"), "f([1])");
  EXPECT_EQ(Block(R"({"name": "f\u002eg", "name": "h", "arguments": {}, "arguments": {"b": 2}})"), "f.g({})")
      << "the first of two fields counts";
  EXPECT_EQ(Block(R"({"name": "f", "arguments": {"a": 1}}})"), R"(f({"a": 1}))") << "a brace too many";
  EXPECT_EQ(Block(R"({"name": "f", "arguments": {"a": 1})"), R"(f({"a": 1}))") << "a brace too few";
}

TEST_F(HermesCallsTest, TwoObjectsAreTwoCalls) {
  EXPECT_EQ(Block("{\"name\": \"f\", \"arguments\": {\"a\": 1} }\n{\"name\": \"g\", \"arguments\": {}}"),
            R"(f({"a": 1}) g({}))");
  EXPECT_EQ(Block(R"({"name": "f"} {"arguments": {"b": 2}, "name": "g"})"), R"(f({}) g({"b": 2}))");
  const ParsedAnswer answer = Parse(R"(<tool_call>{"name": "f"} {"no": "name"}</tool_call>)");
  EXPECT_EQ(CallsOf(answer), "f({})");
  EXPECT_EQ(answer.content, R"({"no": "name"})") << "nothing is dropped";
  const ParsedAnswer one =
      ParseText(tokenizer_, format_, R"(<tool_call>{"name": "f"} {"name": "g"}</tool_call>)",
                {.calls = true, .parallel_calls = false});
  EXPECT_EQ(CallsOf(one), "f({})") << "one was allowed";
}

TEST_F(HermesCallsTest, AModelThatEndsItsTurnEndsTheCall) {
  const auto ended = [&](const std::string& text, OutputParser::Ending ending) {
    return CallsOf(ParseText(tokenizer_, format_, text, {.calls = true}, ending));
  };
  EXPECT_EQ(ended(R"(<tool_call>{"name": "f")", OutputParser::Ending::kByModel), "f({})");
  EXPECT_EQ(ended(R"(<tool_call>{"name": "f")", OutputParser::Ending::kCutOff), "");
}

TEST_F(HermesCallsTest, ABlockWithoutACallIsContent) {
  for (const char* text : {"f(1)", "[1]", R"({"arguments": {}})", R"({"name": 1, "arguments": {}})",
                           R"({"name": "", "arguments": {}})", R"({"name": , "arguments": {}})",
                           R"({"name": "f", arguments: {}})", R"({"name" "f"})", "{}", "\"x\"",
                           R"([{"name": "f", "arguments": {}}])"})
    EXPECT_EQ(Block(text), "content: \n" + std::string(text) + "\n");
  EXPECT_EQ(Block(""), "");
  EXPECT_EQ(Parse("a<tool_call>b").content, "ab") << "cut off, but certainly not a call";
}

TEST_F(HermesCallsTest, AnswersThatAreCutOff) {
  const std::string whole = R"({"name": "f", "arguments": {"a": "b c"}})";
  for (size_t length = 0; length < whole.size(); ++length) {
    const ParsedAnswer answer = Parse("<tool_call>\n" + whole.substr(0, length));
    EXPECT_EQ(answer.content, "");
    if (length <= whole.find("{\"a\"")) {
      EXPECT_EQ(answer.calls.size(), 0u) << length;
    } else {
      ASSERT_EQ(answer.calls.size(), 1u) << length;
      const std::string& arguments = answer.calls[0].arguments;
      EXPECT_EQ(whole.substr(whole.find("{\"a\""), arguments.size()), arguments);
    }
  }
  EXPECT_EQ(CallsOf(Parse("<tool_call>" + whole)), R"(f({"a": "b c"}))") << "no end mark";
  EXPECT_EQ(CallsOf(Parse(R"(<tool_call>{"name": "f"})")), "f({})");
}

}  // namespace
}  // namespace numoe::text
