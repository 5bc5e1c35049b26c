// Statements: their blocks and targets, and error messages.
#include "coordinator/text/chat/jinja_parser.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Block Parsed(std::string_view source) {
  auto block = Parse(source);
  EXPECT_TRUE(block.ok()) << block.status();
  return block.ok() ? *std::move(block) : Block();
}

std::string ErrorOf(std::string_view source) { return std::string(Parse(source).status().message()); }

TEST(JinjaParserTest, AnIfHasABlockForEachConditionAndOneMoreForElse) {
  const Block with_else = Parsed("{% if a %}1{% elif b %}2{% elif c %}3{% else %}4{% endif %}");
  ASSERT_EQ(with_else.size(), 1u);
  EXPECT_EQ(with_else[0]->kind, Kind::kIf);
  EXPECT_EQ(with_else[0]->args.size(), 3u);
  ASSERT_EQ(with_else[0]->blocks.size(), 4u);
  EXPECT_EQ(with_else[0]->blocks[3][0]->text, "4");
  EXPECT_EQ(Parsed("{% if a %}{% endif %}")[0]->blocks.size(), 1u);
}

TEST(JinjaParserTest, AForHasNamesAFilterAndTwoBlocks) {
  for (const char* source : {"{% for k, v in a.b if k %}x{% else %}y{% endfor %}",
                             "{% for (k, v) in a if k recursive %}x{% else %}y{% endfor %}"}) {
    const Block block = Parsed(source);
    ASSERT_EQ(block.size(), 1u) << source;
    EXPECT_EQ(block[0]->kind, Kind::kFor);
    ASSERT_EQ(block[0]->args.size(), 3u);
    ASSERT_EQ(block[0]->args[0]->args.size(), 2u);
    EXPECT_EQ(block[0]->args[0]->args[0]->text, "k");
    EXPECT_EQ(block[0]->args[0]->args[1]->text, "v");
    EXPECT_NE(block[0]->args[2], nullptr);
    ASSERT_EQ(block[0]->blocks.size(), 2u);
    EXPECT_EQ(block[0]->blocks[1][0]->text, "y");
  }
  EXPECT_TRUE(Parsed("{% for x in a %}{% endfor %}")[0]->blocks[1].empty());
}

TEST(JinjaParserTest, TargetsOfSet) {
  const Block block =
      Parsed("{% set a = 1 %}{% set b.c, d = e %}{% set f %}x{% endset %}{% set g | upper %}x{% endset %}");
  ASSERT_EQ(block.size(), 4u);
  EXPECT_EQ(block[0]->args.size(), 2u);
  ASSERT_EQ(block[1]->args.size(), 2u);
  const Block& targets = block[1]->args[0]->args;
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0]->kind, Kind::kAttribute);
  EXPECT_EQ(targets[0]->text, "c");
  EXPECT_EQ(block[2]->kind, Kind::kSetBlock);
  EXPECT_EQ(block[2]->args.size(), 1u);
  ASSERT_EQ(block[3]->args.size(), 2u);
  EXPECT_EQ(block[3]->args[1]->kind, Kind::kFilter);
}

TEST(JinjaParserTest, MacrosFiltersAndGenerations) {
  const Block block = Parsed(
      "{% macro m(a, b=1) %}x{% endmacro m %}{% filter trim | upper %}y{% endfilter %}"
      "{% generation %}z{% endgeneration %}");
  ASSERT_EQ(block.size(), 3u);
  EXPECT_EQ(block[0]->kind, Kind::kMacro);
  EXPECT_THAT(block[0]->names, ElementsAre("a", "b"));
  EXPECT_EQ(block[0]->args[0], nullptr);
  EXPECT_NE(block[0]->args[1], nullptr);
  EXPECT_EQ(block[1]->kind, Kind::kFilterBlock);
  EXPECT_EQ(block[1]->args[0]->text, "upper");
  EXPECT_EQ(block[2]->kind, Kind::kGeneration);
}

TEST(JinjaParserTest, NodesHaveTheirLine) {
  const Block block = Parsed("a\n{{ b }}\n{% if c %}\nd\n{% endif %}");
  ASSERT_EQ(block.size(), 4u);
  EXPECT_EQ(block[1]->args[0]->line, 2);
  EXPECT_EQ(block[3]->args[0]->line, 3);
}

TEST(JinjaParserTest, ErrorsNameWhatIsMissing) {
  EXPECT_EQ(ErrorOf("\n{% if a %}"), "line 2: found the end, expected endif");
  EXPECT_EQ(ErrorOf("{% for x in y %}"), "line 1: found the end, expected endfor");
  EXPECT_EQ(ErrorOf("{% if a %}{% else %}"), "line 1: found the end, expected endif");
  EXPECT_EQ(ErrorOf("{% macro m() %}"), "line 1: found the end, expected endmacro");
  EXPECT_EQ(ErrorOf("{% set a %}"), "line 1: found the end, expected endset");
  EXPECT_EQ(ErrorOf("{% for x y %}{% endfor %}"), "line 1: found 'y', expected in");
  EXPECT_EQ(ErrorOf("{% set 1 = 2 %}"), "line 1: found '1', expected a name");
  EXPECT_EQ(ErrorOf("{% if a b %}{% endif %}"), "line 1: found 'b', expected %}");
  EXPECT_EQ(ErrorOf("{{ a b }}"), "line 1: found 'b', expected }}");
}

TEST(JinjaParserTest, UnknownAndStrayTagsAreNamed) {
  const char* known = "expected if, for, set, macro, call, filter, with";
  EXPECT_THAT(ErrorOf("{% include 'x' %}"), ::testing::AllOf(HasSubstr("found 'include'"), HasSubstr(known)));
  EXPECT_THAT(ErrorOf("{% endif %}"), HasSubstr("found 'endif'"));
  EXPECT_THAT(ErrorOf("{% if a %}{% endfor %}{% endif %}"), HasSubstr("found 'endfor'"));
  EXPECT_THAT(ErrorOf("{% %}"), HasSubstr("expected a name"));
}

TEST(JinjaParserTest, NestedBlocksAreBounded) {
  std::string open, close;
  for (int i = 0; i < 300; ++i) {
    open += "{% if a %}";
    close += "{% endif %}";
  }
  EXPECT_THAT(ErrorOf(open + close), HasSubstr("expected nesting of at most 200"));
  EXPECT_EQ(ErrorOf(open.substr(0, 1000) + close.substr(0, 1100)), "");
}

}  // namespace
}  // namespace numoe::text::jinja
