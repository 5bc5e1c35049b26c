// Tokens of templates, and the white space that their tags remove.
#include "coordinator/text/chat/jinja_lexer.h"

#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

// Writes tokens on one line: text in quotes, tags as in the template, other tokens by their text.
std::string Spelled(std::string_view source) {
  const auto tokens = Tokenize(source);
  if (!tokens.ok()) return std::string(tokens.status().message());
  std::string out;
  for (const Token& token : *tokens) {
    switch (token.kind) {
      case TokenKind::kText:
      case TokenKind::kString:
        out += fmt::format("{}'{}'", token.kind == TokenKind::kText ? "text" : "", token.text);
        break;
      case TokenKind::kPrintBegin:
        out += "{{";
        break;
      case TokenKind::kPrintEnd:
        out += "}}";
        break;
      case TokenKind::kBlockBegin:
        out += "{%";
        break;
      case TokenKind::kBlockEnd:
        out += "%}";
        break;
      case TokenKind::kFloat:
        out += "float " + token.text;
        break;
      case TokenKind::kEnd:
        return out;
      default:
        out += token.text;
    }
    out += ' ';
  }
  return out + "(no end)";
}

TEST(JinjaLexerTest, TagsAndTheirTokens) {
  EXPECT_EQ(Spelled(""), "");
  EXPECT_EQ(Spelled("a{{b}}c{%d%}"), "text'a' {{ b }} text'c' {% d %} ");
  EXPECT_EQ(Spelled("{{ a//b**c!=d>=e<=f==g~h|i }}"), "{{ a // b ** c != d >= e <= f == g ~ h | i }} ");
  EXPECT_EQ(Spelled("{ { % } } #}"), "text'{ { % } } #}' ") << "single braces are text";
  EXPECT_EQ(Spelled("{{ {'a': {}} }}"), "{{ { 'a' : { } } }} ") << "a dict's braces do not close the tag";
  EXPECT_EQ(Spelled("{{ größe }}"), "{{ größe }} ");
}

TEST(JinjaLexerTest, Numbers) {
  EXPECT_EQ(Spelled("{{ 1_000 1.5 2e3 2E-3 1.5e+2 }}"),
            "{{ 1000 float 1.5 float 2e3 float 2E-3 float 1.5e+2 }} ");
  EXPECT_EQ(Spelled("{{ a.0.b }}"), "{{ a . 0 . b }} ") << "a point without a digit after it is an operator";
  EXPECT_EQ(Spelled("{{ 1else }}"), "{{ 1 else }} ") << "an e without an exponent begins a name";
  EXPECT_EQ(Spelled("{{ 999999999999999999 }}"), "{{ 999999999999999999 }} ");
  EXPECT_EQ(Spelled("{{ 1000000000000000000 }}"), "{{ 1000000000000000000 }} ");
}

TEST(JinjaLexerTest, EscapesInStrings) {
  EXPECT_EQ(Spelled(R"({{ "\n\t\\\"\'" 'it"s' }})"), "{{ '\n\t\\\"'' 'it\"s' }} ");
  EXPECT_EQ(Spelled(R"({{ '\x41\u00e9\u4f60\d' }})"), "{{ 'A\u00e9\u4f60\\d' }} ")
      << "Python keeps unknown escapes";
  EXPECT_EQ(Tokenize(R"({{ '\0' }})")->at(1).text, std::string(1, '\0'));
  EXPECT_EQ(Spelled(R"({{ '\x4' }})"), "line 1: escape \\x4': expected 2 hexadecimal digits");
  EXPECT_EQ(Spelled(R"({{ '\u12)"), "line 1: escape \\u12: expected 4 hexadecimal digits");
  EXPECT_EQ(Spelled("\n{{ 'open }}"), "line 2: string is not closed");
}

TEST(JinjaLexerTest, WhiteSpaceAroundTags) {
  EXPECT_EQ(Spelled("a \n {{- b -}} \n c"), "text'a' {{ b }} text'c' ");
  EXPECT_EQ(Spelled("a\n  {% b %}\n  c"), "text'a\n' {% b %} text'  c' ") << "lstrip_blocks and trim_blocks";
  EXPECT_EQ(Spelled("a  {% b %}  \nc"), "text'a  ' {% b %} text'  \nc' ")
      << "not if there is other text on the line";
  EXPECT_EQ(Spelled("  {%+ b +%}\nc"), "text'  ' {% b %} text'\nc' ");
  EXPECT_EQ(Spelled("  {{ b }}\nc"), "text'  ' {{ b }} text'\nc' ")
      << "white space before printed text is kept";
  EXPECT_EQ(Spelled("a\r\nb\rc\r\n"), "text'a\nb\nc' ") << "line ends are \\n, and the last one is dropped";
}

TEST(JinjaLexerTest, CommentsAndRawBlocks) {
  EXPECT_EQ(Spelled("a {#- {{ not -#} b"), "text'a' text'b' ");
  EXPECT_EQ(Spelled("{% raw %}{{ a }}{% endfor %}{% endraw %}b"), "text'{{ a }}{% endfor %}' text'b' ");
  EXPECT_EQ(Spelled("{%- raw -%} x {%- endraw -%} y"), "text'x' text'y' ");
  EXPECT_EQ(Spelled("{% rawest %}"), "{% rawest %} ");
  EXPECT_EQ(Spelled("a\n{# open"), "line 2: comment is not closed, expected #}");
  EXPECT_EQ(Spelled("{% raw %}{% end %}"), "line 1: raw is not closed, expected endraw");
  EXPECT_EQ(Spelled("{% raw %}x{% endraw"), "line 1: endraw is not closed, expected %}");
}

TEST(JinjaLexerTest, EveryTokenHasItsLine) {
  const auto tokens = Tokenize("a\n{# b\n#}{{\nc }}\nd");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int> lines;
  for (const Token& token : *tokens) lines.push_back(token.line);
  EXPECT_THAT(lines, ::testing::ElementsAre(1, 3, 4, 4, 4, 4));
}

TEST(JinjaLexerTest, ErrorsGiveLineAndCharacter) {
  EXPECT_EQ(Spelled("\n\n{{ a ? b }}"), "line 3: unexpected character '?'");
  EXPECT_EQ(Spelled("{{ a"), "line 1: tag is not closed, expected }}");
  EXPECT_EQ(Spelled("{% a }}"), "line 1: tag is not closed, expected %}");
  EXPECT_THAT(Spelled("{{ (a }}"), HasSubstr("not closed")) << "a bracket keeps the tag open";
}

}  // namespace
}  // namespace numoe::text::jinja
