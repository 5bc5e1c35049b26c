// Qwen3-Coder's calls: values of the declared types, ends of values, and text in pieces of any length.
#include "coordinator/text/parsing/qwen_coder_calls.h"

#include <random>

#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/text/parsing/parse_text.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

class QwenCoderCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto format = ChooseOutputFormat(tokenizer_, "auto", "qwen3_coder");
    ASSERT_TRUE(format.ok()) << format.status();
    format_ = *format;
    tools_ = ReadDeclaredTools(
        ordered_json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "$defs": {"row": {"type": "object"}}, "properties": {
      "s": {"type": "string"}, "t": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"},
      "b": {"type": "boolean"}, "o": {"type": "object"}, "l": {"type": "array"}, "u": {},
      "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "sn": {"type": ["string", "integer"]},
      "row": {"$ref": "#/$defs/row"}, "e": {"enum": [1, 2, "auto"]}}}}}])"));
  }
  ParsedAnswer Parse(const std::string& text) const {
    return ParseText(tokenizer_, format_, text, {.calls = true, .tools = tools_, .prompt_mark = {}});
  }
  // Returns the calls of a block; "content: ..." if it is not a call.
  std::string Block(const std::string& inside) const {
    const ParsedAnswer answer = Parse("<tool_call>\n" + inside + "\n</tool_call>");
    return answer.content.empty() ? CallsOf(answer) : "content: " + answer.content;
  }
  std::string Value(const std::string& key, const std::string& value) const {
    const std::string calls =
        Block("<function=f>\n<parameter=" + key + ">\n" + value + "\n</parameter>\n</function>");
    const std::string begin = "f({\"" + key + "\": ", end = "})";
    EXPECT_EQ(calls.substr(0, begin.size()), begin);
    EXPECT_EQ(calls.substr(calls.size() - 2), end);
    EXPECT_TRUE(ordered_json::accept(calls.substr(2, calls.size() - 3))) << calls;
    return calls.substr(begin.size(), calls.size() - begin.size() - end.size());
  }

  const ByteTokenizer tokenizer_{QwenControlTokens()};
  OutputFormat format_;
  std::vector<DeclaredTool> tools_;
};

TEST_F(QwenCoderCallsTest, ReasoningContentAndCalls) {
  const ParsedAnswer answer = Parse(
      "<think>\nTwo.\n</think>\n\nI look.\n\n<tool_call>\n<function=f>\n<parameter=s>\nParis\n</parameter>\n"
      "<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</"
      "tool_call>");
  EXPECT_EQ(answer.reasoning, "Two.");
  EXPECT_EQ(answer.content, "I look.");
  EXPECT_EQ(CallsOf(answer), R"(f({"s": "Paris", "n": 3}) g({}))");
  EXPECT_EQ(answer.calls[1].id, "functions.g:1");
}

TEST_F(QwenCoderCallsTest, StringsAreTheTextBetweenTwoLineBreaks) {
  EXPECT_EQ(Value("s", "a"), R"("a")");
  EXPECT_EQ(Value("s", ""), R"("")");
  EXPECT_EQ(Value("s", "  a\n\tb\n"), R"("  a\n\tb\n")");
  EXPECT_EQ(Value("s", "\n\"x\\\" \u00fc\U0001F642"), "\"\\n\\\"x\\\\\\\" \u00fc\U0001F642\"");
  EXPECT_EQ(Value("s", "12"), R"("12")") << "a string is a string";
  EXPECT_EQ(Value("s", "null"), R"("null")");
  EXPECT_EQ(Value("unknown", "12"), R"("12")") << "and so is an undeclared parameter";
  EXPECT_EQ(Value("u", "{}"), R"("{}")") << "or one without a type";
  EXPECT_EQ(Block("<function=f><parameter=s>a\r\n</parameter><parameter=t>\r\nb</parameter></function>"),
            R"(f({"s": "a", "t": "b"}))");
}

TEST_F(QwenCoderCallsTest, OtherValuesAreTheJsonThatWasWritten) {
  EXPECT_EQ(Value("n", "12"), "12");
  EXPECT_EQ(Value("n", " -7 "), "-7");
  EXPECT_EQ(Value("x", "1.50"), "1.50");
  EXPECT_EQ(Value("b", "true"), "true");
  EXPECT_EQ(Value("b", "False"), "false") << "as Python writes it";
  EXPECT_EQ(Value("o", "{\"a\": [1, {\"b\": \"</x>\"}],\n \"c\": null}"),
            "{\"a\": [1, {\"b\": \"</x>\"}],\n \"c\": null}");
  EXPECT_EQ(Value("l", "[1, 2]"), "[1, 2]");
  EXPECT_EQ(Value("row", R"({"a": 1})"), R"({"a": 1})") << "by reference";
  EXPECT_EQ(Value("n", "null"), "null");
  EXPECT_EQ(Value("n", "twelve"), R"("twelve")")
      << "a value that is not JSON is passed on as a string, for the client to refuse";
  EXPECT_EQ(Value("o", "{'a': set()}"), R"("{'a': set()}")");
  EXPECT_EQ(Value("l", "\n"), R"("\n")");
}

TEST_F(QwenCoderCallsTest, PythonsLiteralsBecomeJson) {
  EXPECT_EQ(Value("o", "{'a': True, 'b': None, 'c': [1, 2.5, \"x\"]}"),
            R"({"a": true, "b": null, "c": [1, 2.5, "x"]})");
  EXPECT_EQ(Value("l", "('a', False)"), R"(["a", false])");
  EXPECT_EQ(Value("x", ".5"), "0.5");
  EXPECT_EQ(Value("n", "1_000"), "1000");
  EXPECT_EQ(Value("b", "TRUE"), "true");
  EXPECT_EQ(Value("s", "{'a': True}"), R"("{'a': True}")") << "a string is a string";
  EXPECT_EQ(Value("maybe", "{'a': True}"), R"("{'a': True}")") << "an object is not one of the types";
}

TEST_F(QwenCoderCallsTest, TheTextDecidesBetweenSeveralDeclaredTypes) {
  EXPECT_EQ(Value("maybe", "null"), "null");
  EXPECT_EQ(Value("maybe", "None"), "null");
  EXPECT_EQ(Value("maybe", "12"), R"("12")") << "a number is not one of the types";
  EXPECT_EQ(Value("maybe", "a\nb"), R"("a\nb")");
  EXPECT_EQ(Value("sn", "12"), "12");
  EXPECT_EQ(Value("sn", "true"), R"("true")");
  EXPECT_EQ(Value("e", "2"), "2");
  EXPECT_EQ(Value("e", "auto"), R"("auto")");
}

TEST_F(QwenCoderCallsTest, MarkupInsideValues) {
  for (const std::string text :
       {"<html><body></body></html>", "a < b", "</param", "x</function>y", "</function>\n\n<!-- -->", "</",
        "<parameter=t>", "a <parameter=t>", "\n<parameter=zzz>\nb", "\n<parameter=s>\nagain", "<function=g>",
        "if a <\n<parameter=", "<think>no</think>"})
    EXPECT_EQ(Value("s", text), ordered_json(text).dump()) << text;
}

TEST_F(QwenCoderCallsTest, ForgottenEndTags) {
  EXPECT_EQ(Block("<function=f>\n<parameter=s>\na\n<parameter=n>\n3\n</parameter>\n</function>"),
            R"(f({"s": "a", "n": 3}))");
  EXPECT_EQ(Block("<function=f>\n<parameter=s>\na\n</function>"), R"(f({"s": "a"}))");
  EXPECT_EQ(Block("<function=f>\n<parameter=s>\na\n</parameter>"), R"(f({"s": "a"}))");
  EXPECT_EQ(Block("<function=f>\n<parameter=s>\na"), R"(f({"s": "a"}))");
  EXPECT_EQ(Block("<function=f>\n<parameter=n>\n12"), R"(f({"n": 12}))");
  EXPECT_EQ(Block("<function=f>"), "f({})");
  EXPECT_EQ(Block("<function=f>\n<parameter=s"), "f({})");
  EXPECT_EQ(Block("<function=f>\n</parameter>\nwell\n<parameter=s>\na\n</parameter>\n</function>"),
            R"(f({"s": "a"}))")
      << "text between tags is ignored";
  EXPECT_EQ(Block("<function=f><parameter=n>1</parameter><parameter=n>2</parameter></function>"),
            R"(f({"n": 1}))")
      << "the first of two values counts";
}

TEST_F(QwenCoderCallsTest, ForgottenEndTagsOfOtherLayouts) {
  EXPECT_EQ(Block("<function=f><parameter=s>a<parameter=n>3</parameter></function>"),
            R"(f({"s": "a", "n": 3}))")
      << "on one line";
  EXPECT_EQ(Block("<function=g>\n<parameter=a>\n1\n<parameter=b>\n2\n</function>"),
            R"(g({"a": "1", "b": "2"}))")
      << "an undeclared tool";
  const std::string open = "<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n<parameter=n>\n3";
  const auto ended = [&](const std::string& text, OutputParser::Ending ending) {
    return CallsOf(
        ParseText(tokenizer_, format_, text, {.calls = true, .tools = tools_, .prompt_mark = {}}, ending));
  };
  EXPECT_EQ(ended(open, OutputParser::Ending::kByModel), R"(f({"s": "a", "n": 3}))")
      << "the model ended its turn";
  EXPECT_EQ(ended(open, OutputParser::Ending::kCutOff), R"(f({"s": "a", "n": ))") << "max_tokens ended it";
}

TEST_F(QwenCoderCallsTest, SeveralFunctionsBetweenTheMarksAreSeveralCalls) {
  const std::string two =
      "<function=f>\n<parameter=s>\na\n</parameter>\n</function>\n<function=g>\n<parameter=x>\n1\n</"
      "parameter>\n</function>";
  EXPECT_EQ(Block(two), R"(f({"s": "a"}) g({"x": "1"}))");
  EXPECT_EQ(Block("<function=f>\n<parameter=s>\na\n</function>\n<function=g>\n</function>"),
            R"(f({"s": "a"}) g({}))");
  const ParsedAnswer one =
      ParseText(tokenizer_, format_, "<tool_call>" + two + "</tool_call>",
                {.calls = true, .parallel_calls = false, .tools = tools_, .prompt_mark = {}});
  EXPECT_EQ(CallsOf(one), R"(f({"s": "a"}))");
}

TEST_F(QwenCoderCallsTest, ABlockWithoutAFunctionIsContent) {
  for (const char* text :
       {"f(1)", "{\"name\": \"f\"}", "<function>", "<function=>", "<function=\n>", "<parameter=a>"})
    EXPECT_EQ(Block(text), "content: \n" + std::string(text) + "\n");
  EXPECT_EQ(Block(""), "");
  EXPECT_EQ(Parse("a<tool_call>b").content, "ab") << "cut off, but certainly not a call";
}

TEST_F(QwenCoderCallsTest, StringsStreamAndOtherValuesComeWhole) {
  OutputParser parser(tokenizer_, format_, {.calls = true, .tools = tools_, .prompt_mark = {}});
  std::vector<std::string> out;
  const auto push = [&](const std::string& text) {
    std::vector<AnswerDelta> deltas;
    for (const TokenId token : tokenizer_.Encode(text, Specials::kParse)) parser.Push(token, deltas);
    std::string all;
    for (const AnswerDelta& delta : deltas)
      all += delta.kind == AnswerDelta::Kind::kCallBegin ? "+" + delta.name + " " : delta.text;
    return all;
  };
  EXPECT_EQ(push("<tool_call>\n<function=f>\n"), "");
  EXPECT_EQ(push("<parameter=s>"), "+f {\"s\": \"");
  EXPECT_EQ(push("\nab"), "ab");
  EXPECT_EQ(push("\n"), "") << "the line break may belong to the format";
  EXPECT_EQ(push("c</para"), "\\nc");
  EXPECT_EQ(push("meter>\n<parameter=n>\n4"), "\", \"n\": ");
  EXPECT_EQ(push("2\n"), "");
  EXPECT_EQ(push("</parameter>"), "42");
  EXPECT_EQ(push("\n</function>"), "}");
}

TEST_F(QwenCoderCallsTest, AnswersThatAreCutOff) {
  const std::string whole =
      "<function=f>\n<parameter=s>\na b\n</parameter>\n<parameter=n>\n12\n</parameter>\n</function>";
  const std::string arguments = R"({"s": "a b", "n": 12})";
  for (size_t length = 0; length <= whole.size(); ++length) {
    const ParsedAnswer answer = Parse("<tool_call>\n" + whole.substr(0, length));
    EXPECT_EQ(answer.content, "");
    if (length < whole.find("\na b")) {
      EXPECT_EQ(answer.calls.size(), 0u) << length;
    } else {
      ASSERT_EQ(answer.calls.size(), 1u) << length;
      EXPECT_EQ(arguments.substr(0, answer.calls[0].arguments.size()), answer.calls[0].arguments);
    }
  }
  EXPECT_EQ(CallsOf(Parse("<tool_call>" + whole)), "f(" + arguments + ")") << "no end mark";
}

// Tests only the reader: pieces of any size result in the same call. (Elsewhere in this file tokens are
// bytes.)
TEST_F(QwenCoderCallsTest, TheDivisionIntoPiecesDoesNotMatter) {
  struct Sink final : CallSink {
    std::string all;
    std::vector<std::string> arguments;
    void BeginCall(const std::string& name) override {
      all += "+" + name + " ";
      arguments.emplace_back();
    }
    void Arguments(std::string_view text) override {
      all += text;
      arguments.back() += text;
    }
    void NoCall(std::string_view text) override { all.append("no call: ").append(text); }
  };
  const std::string_view parts[] = {"<function=f>",
                                    "<function=",
                                    "f>",
                                    "\n",
                                    "<parameter=s>",
                                    "<parameter=n>",
                                    "</parameter>",
                                    "</function>",
                                    "x",
                                    "12",
                                    "\r\n",
                                    "\r",
                                    "<parameter=",
                                    "t>",
                                    "<",
                                    " ",
                                    "\"",
                                    "</"};
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = random() % 4 != 0 ? "<function=f>" : "";
    for (size_t n = random() % 14; n > 0; --n) text += parts[random() % std::size(parts)];
    const bool closed = random() % 4 != 0;
    const auto read = [&](size_t step) {
      Sink sink;
      QwenCoderCallReader reader(sink, tools_);
      reader.Begin();
      for (size_t at = 0; at < text.size(); at += step) reader.Body(std::string_view(text).substr(at, step));
      reader.End(closed);
      return sink;
    };
    const Sink whole = read(text.size() + 1);
    for (const size_t step : {size_t{1}, size_t{2}, 3 + random() % 9})
      ASSERT_EQ(read(step).all, whole.all) << text;
    if (!closed) continue;
    for (const std::string& arguments : whole.arguments)
      ASSERT_TRUE(ordered_json::accept(arguments)) << text << whole.all;
  }
}

}  // namespace
}  // namespace numoe::text
