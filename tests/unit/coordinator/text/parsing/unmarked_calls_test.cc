// Calls without the mark before them: which text is such a call, in tokens of any length.
#include "coordinator/text/parsing/unmarked_calls.h"

#include <random>

#include "tests/unit/coordinator/text/parsing/parse_text.h"

namespace numoe::text {
namespace {

class UnmarkedCallsTest : public ::testing::Test {
 protected:
  static ParsedAnswer Pieces(const std::vector<std::string>& pieces, OutputParserOptions options) {
    const ByteTokenizer tokenizer(QwenControlTokens(), pieces);
    const OutputFormat format = *ChooseOutputFormat(tokenizer, "auto", "qwen3_coder");
    OutputParser parser(tokenizer, format, std::move(options));
    std::vector<AnswerDelta> deltas;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::optional<TokenId> mark = tokenizer.SpecialId(pieces[i]);
      parser.Push(mark.value_or(tokenizer.VocabSize() - static_cast<TokenId>(pieces.size() - i)), deltas);
    }
    parser.Finish(deltas, OutputParser::Ending::kByModel);
    ParsedAnswer answer;
    for (const AnswerDelta& delta : deltas) answer.Add(delta);
    return answer;
  }
  OutputParserOptions Options() const { return {.calls = true, .tools = tools_, .prompt_mark = {}}; }
  // Returns "content|calls".
  std::string Parse(const std::string& text) const {
    const ParsedAnswer answer =
        ParseText(tokenizer_, format_, text, Options(), OutputParser::Ending::kByModel);
    return answer.content + "|" + CallsOf(answer);
  }

  const ByteTokenizer tokenizer_{QwenControlTokens()};
  const OutputFormat format_ = *ChooseOutputFormat(tokenizer_, "auto", "qwen3_coder");
  const std::vector<DeclaredTool> tools_ = {{"get", {"city", "days"}, {}, {{"days", kNumberValue}}},
                                            {"getter", {}, {}, {}}};
};

TEST_F(UnmarkedCallsTest, ACallWithoutItsMark) {
  const std::string call =
      "<function=get>\n<parameter=city>\nDallas\n</parameter>\n<parameter=days>\n3\n</parameter>\n</"
      "function>";
  const std::string read = R"(get({"city": "Dallas", "days": 3}))";
  EXPECT_EQ(Parse(call), "|" + read);
  EXPECT_EQ(Parse("I'll check. " + call + "\n</tool_call>"), "I'll check.|" + read);
  EXPECT_EQ(Parse("a\n\n" + call + "\n</tool_call>\n" + call + "\n</tool_call>"), "a|" + read + " " + read);
  EXPECT_EQ(Parse(call + call + "<tool_call>" + call + "</tool_call>" + call),
            "|" + read + " " + read + " " + read + " " + read);
  EXPECT_EQ(Parse(call + "\nDone."), "Done.|" + read);
  EXPECT_EQ(Parse("<think>so</think>" + call), "|" + read);
  EXPECT_EQ(Parse("<function=getter></function>"), "|getter({})");
}

TEST_F(UnmarkedCallsTest, MissingEndTags) {
  EXPECT_EQ(Parse("<function=get>\n<parameter=city>\nDallas"), R"(|get({"city": "Dallas"}))");
  EXPECT_EQ(Parse("<function=get>\n<parameter=city>\nDallas\n</tool_call>"), R"(|get({"city": "Dallas"}))");
  EXPECT_EQ(Parse("<function=get>\n<parameter=city>\nDallas\n</function>"), R"(|get({"city": "Dallas"}))");
}

TEST_F(UnmarkedCallsTest, OtherMentionsOfTheTagAreText) {
  for (const char* text :
       {"<function=other>\n<parameter=city>\nx\n</parameter>\n</function>", "Write <function=get> first.",
        "<function=get", "<function=get>", "<function=get>\n", "<function", "a <b> c",
        "<function=getx></function>", "<<function=get>>", "<function=get >\n<parameter=city>"})
    EXPECT_EQ(Parse(text), std::string(text) + "|") << text;
  EXPECT_EQ(Parse("<think><function=get></function></think>x"), "x|") << "reasoning may plan a call";
  OutputParserOptions none = Options();
  none.calls = false;
  EXPECT_EQ(ParseText(tokenizer_, format_, "<function=getter></function>", none).content,
            "<function=getter></function>");
}

TEST_F(UnmarkedCallsTest, OnlyOneCallIfOnlyOneIsAllowed) {
  OutputParserOptions one = Options();
  one.parallel_calls = false;
  const ParsedAnswer answer = Pieces({"<function=getter></function><function=get></function>x"}, one);
  EXPECT_EQ(CallsOf(answer), "getter({})");
  EXPECT_EQ(answer.content, "");
}

TEST_F(UnmarkedCallsTest, HoldsBackAtMostAHead) {
  const std::string tag = "<function=get>";
  EXPECT_EQ(FindUnmarkedCall("abc" + tag, tools_).text_bytes, 3u);
  EXPECT_EQ(FindUnmarkedCall(tag + std::string(64, ' '), tools_).text_bytes, 0u);
  EXPECT_EQ(FindUnmarkedCall(tag + std::string(65, ' '), tools_).text_bytes, tag.size() + 65);
  EXPECT_TRUE(FindUnmarkedCall("ab" + tag + "</function>", tools_).found);
}

TEST_F(UnmarkedCallsTest, TheDivisionIntoTokensDoesNotMatter) {
  const std::string_view parts[] = {
      "<function=",  "get", "getter", ">", "<function=get>",   "\n", "<parameter=city>", "</parameter>",
      "</function>", "x",   " ",      "<", "<parameter=days>", "3",  "</tool_call>",     "<tool_call>",
      "\u00fc"};
  std::mt19937 random(7);
  int calls = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::string> coarse, fine;
    for (size_t n = 1 + random() % 12; n > 0; --n) {
      const std::string part(parts[random() % std::size(parts)]);
      const bool mark = tokenizer_.SpecialId(part).has_value();
      const size_t cut = mark ? 0 : random() % (part.size() + 1);
      if (cut > 0) fine.push_back(part.substr(0, cut));
      if (cut < part.size()) fine.push_back(part.substr(cut));
      if (mark || coarse.empty() || tokenizer_.SpecialId(coarse.back())) {
        coarse.push_back(part);
      } else {
        coarse.back() += part;
      }
    }
    const ParsedAnswer whole = Pieces(coarse, Options());
    std::string text;
    for (const std::string& piece : coarse) text += piece;
    ASSERT_EQ(Pieces(fine, Options()), whole) << text;
    ASSERT_EQ(ParseText(tokenizer_, format_, text, Options(), OutputParser::Ending::kByModel), whole) << text;
    calls += static_cast<int>(whole.calls.size());
  }
  EXPECT_GT(calls, 300);
}

}  // namespace
}  // namespace numoe::text
