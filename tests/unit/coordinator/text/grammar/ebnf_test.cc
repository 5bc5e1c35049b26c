// EBNF: the dialect, recursion of all kinds, ambiguity, and errors with line and column.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void Check(const std::string& source, const std::vector<std::string>& valid,
           const std::vector<std::string>& invalid) {
  SCOPED_TRACE(source);
  std::mt19937_64 random(1);
  const GrammarPtr grammar = Compiled(Kind::kEbnf, source);
  ASSERT_NE(grammar, nullptr);
  for (const std::string& text : valid) EXPECT_TRUE(Accepts(grammar, text)) << text;
  for (const std::string& text : valid) EXPECT_TRUE(AcceptsSplit(grammar, text, random)) << text;
  for (const std::string& text : invalid) EXPECT_FALSE(Accepts(grammar, text)) << text;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Accepts(grammar, RandomText(grammar, random)));
}

TEST(EbnfTest, Elements) {
  Check("root ::= \"a\" [b-d] [^x\\n] . # comment\n", {"ab1é", "ad日\n"}, {"aa11", "ab1", "abx1", "ab\n1"});
  Check("root ::= \"\\\"\\n\\x41\\u00e9\\U0001F600\\\\\"", {"\"\nAé😀\\"}, {""});
  Check("root ::= [\\]\\-a\\\\]+ | [+-]", {"]-a\\", "+", "-"}, {"b"});
  Check("root ::= (\"a\" | \"b\")? \"c\"* \"d\"+ [e]{2} \"f\" {1,} \"g\"{0,2}", {"deef", "accddeefffgg"},
        {"def", "eef", "deefggg"});
  Check("root ::= \"\" | \"x\"", {"", "x"}, {"xx"});
  Check("root ::=\n  \"a\" |\n  \"b\"\n\nother ::= \"c\"", {"a", "b"}, {"c"});
  Check("root ::= a-b c_d e.f\na-b ::= \"1\"\nc_d ::= \"2\"\ne.f ::= \"3\"", {"123"}, {"12"});
}

// Syntax that llama.cpp's parser of GBNF accepts in addition.
TEST(EbnfTest, LayoutAndOperatorsOfGbnf) {
  Check("root ::= (\n  \"a\" # one\n  | \"b\"\n  *\n)+\n", {"a", "", "ab", "bba"}, {"c"});
  Check("root ::= \"a\"+? \"x\"", {"x", "ax", "aax"}, {"a"});
  Check("root ::= (\"ab\"{2}){1,2}", {"abab", "abababab"}, {"ab", "ababab"});
  Check("root ::= \"a\nb\" [\n\t ]", {"a\nb ", "a\nb\n"}, {"ab "});
  Check("root ::= [^\\x00-\\x7F] [\\u4e00-\\u9fff] [\\U0001F600-\\U0001F64F]", {"é日😀"}, {"a日😀", "é日x"});
  Check("root\t::=\r\n \"a\"\r\n | x\r\nx ::= \"b\"", {"a", "b"}, {"x"});
}

// Grammars like those that llama.cpp publishes, written for this test.
TEST(EbnfTest, PublishedKindsOfGbnf) {
  Check(R"gbnf(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)gbnf",
        {R"({})", "{\"a\": [1, -2.5e3, \"x\\u00e9\"],\n  \"b\":{\"c\":null}}"},
        {"[]", "{\"a\"}", "{\"a\":01}", "{a:1}"});
  Check(R"gbnf(root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*)gbnf",
        {"1+2=3\n", "x = 2\n\n", "(a1 +2) *b = c\nd=1\n"}, {"1+=3\n", "1=2"});
  Check(R"gbnf(root ::= item+
# Excludes line breaks of every kind
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n")gbnf",
        {"- a\n", "- milk\n- eggs, 12\n"}, {"a\n", "- a", "- \n", "- a\u2028\n"});
  Check(R"gbnf(root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?)gbnf",
        {"1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n2. O-O-O exd8=Q+\n"}, {"1. e4 e5\n", "1. e9 e5\n2. a1 a2\n"});
  Check(R"gbnf(root ::= jp-char+ ([ \t\n] jp-char+)*
jp-char ::= hiragana | katakana | punctuation | cjk
hiragana ::= [ぁ-ゟ]
katakana ::= [ァ-ヿ]
punctuation ::= [、-〾]
cjk ::= [一-鿿])gbnf",
        {"こんにちは 世界", "カタカナ、ひらがな。"}, {"hello", "こ x", " こ"});
  Check(R"gbnf(root ::= (declaration)*
declaration ::= dataType identifier "(" parameter? ")" "{" statement* "}"
dataType ::= "int" ws | "float" ws | "char" ws
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= dataType identifier
statement ::= dataType identifier ws "=" ws expression ";" | identifier ws "=" ws expression ";" | "return" ws expression ";" | "while" "(" expression relation expression ")" "{" statement* "}" | "//" [^\n]* "\n"
relation ::= "<=" | "<" | "==" | "!=" | ">=" | ">"
expression ::= term (("+" | "-") term)*
term ::= factor (("*" | "/") factor)*
factor ::= identifier | [0-9]+ | "-" factor | "(" expression ")"
ws ::= ([ \t\n]+))gbnf",
        {"", "int f(int a){int b = a+1;return b*(2-a);}int g(){//x\n}", "char m(){while(a<=3){a = a+1;}}"},
        {"int f", "int f(){return 1}", "double f(){}"});
}

TEST(EbnfTest, Recursion) {
  Check("root ::= \"(\" root \")\" root | \"\"", {"", "()", "(())()"}, {"(", ")(", "())"});
  Check("root ::= item \",\" root | item\nitem ::= [0-9]+", {"1", "12,3,4"}, {"1,", ",1"});
  Check("root ::= root \"+\" term | term\nterm ::= [0-9] | \"(\" root \")\"", {"1", "1+2+3", "(1+2)+3"},
        {"+1", "1+", "(1"});
  Check(
      "root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= \"-\"? num | \"(\" expr \")\"\nnum ::= "
      "[0-9]+ "
      "(\".\" [0-9]+)?",
      {"1", "-1.5*(2+3)", "((1))/2"}, {"1*", "()", "1..2"});
  Check("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\"", {"c", "abcba", "aaacaaa"}, {"abcab", "aa"});
}

TEST(EbnfTest, Ambiguity) {
  Check("root ::= s\ns ::= \"a\" s s | \"a\"", {"a", "aaa", "aaaaa"}, {"", "aa"});
  Check("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"", {"", "aabc", "aaacbb"}, {"ab c", "aab"});
  Check("root ::= (a | b)* \"x\"\na ::= \"a\" | \"aa\"\nb ::= a b | \"b\"", {"x", "aaaabx"}, {"aay"});
  Check("root ::= ws (\"a\"? ws)* ws\nws ::= [ ]*", {"", "   a  a "}, {"b"});
}

TEST(EbnfTest, AmbiguityBeyondTheLimitEndsWithAnErrorAndNotWithADeadEnd) {
  // The number of derivations after n letters grows with the ways to be n levels deep in n different rules.
  std::string source = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    source += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string((i + 1) % 60) + " \"" +
              static_cast<char>('b' + i % 20) + "\" | \"a\" r" + std::to_string((i * 7 + 3) % 60) +
              " [b-z] | \"\"\n";
  }
  GrammarState state(Compiled(Kind::kEbnf, source));
  std::vector<uint64_t> mask(SmallVocabulary()->mask_words());
  for (int i = 0; i < 3000; ++i) {
    const absl::Status status = state.FillMask(absl::MakeSpan(mask));
    if (!status.ok()) {
      EXPECT_THAT(status.ToString(), HasSubstr("too ambiguous"));
      return;
    }
    ASSERT_TRUE(state.Accept('a')) << i;
  }
}

TEST(EbnfTest, DeepNestingNeedsNoStack) {
  const GrammarPtr grammar = Compiled(Kind::kEbnf, "root ::= \"[\" root \"]\" | \"x\"");
  EXPECT_TRUE(Accepts(grammar, std::string(100'000, '[') + "x" + std::string(100'000, ']')));
  EXPECT_FALSE(Accepts(grammar, std::string(100'000, '[') + "x" + std::string(99'999, ']')));
}

TEST(EbnfTest, ErrorsGiveLineAndColumn) {
  const auto error = [](const std::string& source) { return CompileError(Kind::kEbnf, source); };
  EXPECT_THAT(error("root ::= \"a\"\nx ::= y"), HasSubstr("line 2, column 7: rule y is not defined"));
  EXPECT_THAT(error("x ::= \"a\""), HasSubstr("no rule named root"));
  EXPECT_THAT(error(""), HasSubstr("no rule named root"));
  EXPECT_THAT(error("root ::= \"a\"\nroot ::= \"b\""),
              HasSubstr("line 2, column 1: rule root is defined twice"));
  EXPECT_THAT(error("root ::= \"a"), HasSubstr("line 1, column 10: a literal without its closing '\"'"));
  EXPECT_THAT(error("root ::= \"a\"\nx ::= [a"),
              HasSubstr("line 2, column 7: a class without its closing ']'"));
  EXPECT_THAT(error("root ::= (\"a\""), HasSubstr("found the end, expected ')'"));
  EXPECT_THAT(error("root ::= \"a\")"), HasSubstr("found ')'"));
  EXPECT_THAT(error("root = \"a\""), HasSubstr("expected a rule"));
  EXPECT_THAT(error("root ::= [\\d]"), HasSubstr("an unknown escape"));
  EXPECT_THAT(error("root ::= [\\d-z]"), HasSubstr("an unknown escape"));
  EXPECT_THAT(error("root ::= \"a\"{3,1}"), HasSubstr("expected a repetition"));
  EXPECT_THAT(error("root ::= <[12]>"), HasSubstr("token element"));
  EXPECT_THAT(error("root ::= TagDispatch((\"a\", b))"), HasSubstr("the macro TagDispatch"));
  EXPECT_THAT(error("root ::= a\na ::= b \"x\"\nb ::= a \"y\" | \"z\""),
              AllOf(HasSubstr("rule a"), HasSubstr("left recursion")));
  EXPECT_THAT(error("root ::= ws root \"x\" | \"y\"\nws ::= [ ]*"), HasSubstr("left recursion"));
  EXPECT_THAT(error("root ::= \"a\" root"), HasSubstr("no text at all matches"));
  EXPECT_THAT(error("root ::= " + std::string(5000, '(')), HasSubstr("nest too deep"));
  EXPECT_THAT(error("root ::= ((\"a\"{1000}){1000}){1000}"), HasSubstr("too large"));
  std::string empty = "r0 ::= \"\"\nroot ::= r9\n";
  for (int i = 1; i < 10; ++i)
    empty += "r" + std::to_string(i) + " ::= r" + std::to_string(i - 1) + "{9999}\n";
  EXPECT_THAT(error(empty), HasSubstr("too large"));
}

}  // namespace
}  // namespace numoe::text
