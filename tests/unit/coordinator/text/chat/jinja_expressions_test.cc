// The precedence of operators, with trees written as (operator operands...).
#include "coordinator/text/chat/jinja_expressions.h"

#include <fmt/format.h>

#include "coordinator/text/chat/jinja_repr.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

std::string Spell(const NodePtr& node);

std::string SpellAll(const std::string& head, const Node& node) {
  std::string out = "(" + head;
  for (const NodePtr& arg : node.args) out += " " + Spell(arg);
  for (size_t i = 0; i < node.keywords.size(); ++i)
    out += fmt::format(" {}={}", node.names[i], Spell(node.keywords[i]));
  return out + ")";
}

std::string SpellCompare(const Node& node) {
  std::string out = "(" + Spell(node.args[0]);
  for (size_t i = 0; i < node.names.size(); ++i)
    out += fmt::format(" {} {}", node.names[i], Spell(node.args[i + 1]));
  return out + ")";
}

std::string Spell(const NodePtr& node) {
  if (node == nullptr) return "-";
  switch (node->kind) {
    case Kind::kLiteral:
      return Repr(node->value);
    case Kind::kName:
      return node->text;
    case Kind::kTuple:
      return SpellAll("tuple", *node);
    case Kind::kList:
      return SpellAll("list", *node);
    case Kind::kDict:
      return SpellAll("dict", *node);
    case Kind::kItem:
      return SpellAll("item", *node);
    case Kind::kSlice:
      return SpellAll("slice", *node);
    case Kind::kCall:
      return SpellAll("call", *node);
    case Kind::kTernary:
      return SpellAll("if", *node);
    case Kind::kAttribute:
      return SpellAll("." + node->text, *node);
    case Kind::kFilter:
      return SpellAll("|" + node->text, *node);
    case Kind::kTest:
      return SpellAll("is " + node->text, *node);
    case Kind::kCompare:
      return SpellCompare(*node);
    default:
      return SpellAll(node->text, *node);
  }
}

struct Reader : ExpressionParser {
  explicit Reader(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}
  std::string Read() {
    Next();  // {{
    const NodePtr tree = ParseTuple();
    if (!Failed() && Peek().kind != TokenKind::kPrintEnd) Fail("}}");
    return Failed() ? std::string(status().message()) : Spell(tree);
  }
};

std::string Tree(const std::string& expression) {
  auto tokens = Tokenize("{{ " + expression + " }}");
  return tokens.ok() ? Reader(*std::move(tokens)).Read() : std::string(tokens.status().message());
}

TEST(JinjaExpressionsTest, Precedence) {
  EXPECT_EQ(Tree("a or b and not c"), "(or a (and b (not c)))");
  EXPECT_EQ(Tree("1 + 2 * 3 - 4"), "(- (+ 1 (* 2 3)) 4)");
  EXPECT_EQ(Tree("a ~ b + c ~ d"), "(+ (~ a b) (~ c d))") << "Jinja's ~ binds tighter than +";
  EXPECT_EQ(Tree("a // b % c"), "(% (// a b) c)");
  EXPECT_EQ(Tree("2 ** 3 ** 2"), "(** (** 2 3) 2)") << "unlike Python";
  EXPECT_EQ(Tree("-a ** 2"), "(** (- a) 2)") << "unlike Python";
  EXPECT_EQ(Tree("(a or b) and c"), "(and (or a b) c)");
  EXPECT_EQ(Tree("not a == b"), "(not (a == b))");
}

TEST(JinjaExpressionsTest, ComparisonsAreChains) {
  EXPECT_EQ(Tree("a < b <= c"), "(a < b <= c)");
  EXPECT_EQ(Tree("a not in b"), "(a not in b)");
  EXPECT_EQ(Tree("a in b != c"), "(a in b != c)");
}

TEST(JinjaExpressionsTest, Ternaries) {
  EXPECT_EQ(Tree("a if b else c"), "(if b a c)");
  EXPECT_EQ(Tree("a if b"), "(if b a -)");
  EXPECT_EQ(Tree("a if b else c if d else e"), "(if b a (if d c e))");
}

TEST(JinjaExpressionsTest, PostfixesFiltersAndTests) {
  EXPECT_EQ(Tree("a.b['c'](1, d=2).0"), "(item (call (item (.b a) 'c') 1 d=2) 0)");
  EXPECT_EQ(Tree("a | f | g(1, k=2)"), "(|g (|f a) 1 k=2)");
  EXPECT_EQ(Tree("-a | abs"), "(|abs (- a))");
  EXPECT_EQ(Tree("a is divisibleby 3 and b"), "(and (is divisibleby a 3) b)");
  EXPECT_EQ(Tree("a is not none"), "(not (is none a))");
  EXPECT_EQ(Tree("a is in [1] or b"), "(or (is in a (list 1)) b)");
  EXPECT_EQ(Tree("a | f is g"), "(is g (|f a))");
}

TEST(JinjaExpressionsTest, Slices) {
  EXPECT_EQ(Tree("a[1]"), "(item a 1)");
  EXPECT_EQ(Tree("a[:]"), "(slice a - - -)");
  EXPECT_EQ(Tree("a[1:]"), "(slice a 1 - -)");
  EXPECT_EQ(Tree("a[::-1]"), "(slice a - - (- 1))");
}

TEST(JinjaExpressionsTest, Literals) {
  EXPECT_EQ(Tree("[1, 'a' 'b', none, True,]"), "(list 1 'ab' None True)");
  EXPECT_EQ(Tree("{'a': 1, b: [],}"), "(dict 'a' 1 b (list))");
  EXPECT_EQ(Tree("()"), "(tuple)");
  EXPECT_EQ(Tree("(a)"), "a");
  EXPECT_EQ(Tree("a, b,"), "(tuple a b)");
  EXPECT_EQ(Tree("1e999"), "inf");
}

TEST(JinjaExpressionsTest, ErrorsNameWhatWasExpected) {
  EXPECT_EQ(Tree(""), "line 1: found '', expected an expression");
  EXPECT_EQ(Tree("a +"), "line 1: found '', expected an expression");
  EXPECT_EQ(Tree("[1 2]"), "line 1: found '2', expected ']'");
  EXPECT_EQ(Tree("{'a' 1}"), "line 1: found '1', expected ':'");
  EXPECT_EQ(Tree("f(a=1 b)"), "line 1: found 'b', expected ')'");
  EXPECT_EQ(Tree("a | 1"), "line 1: found '1', expected a name");
  EXPECT_EQ(Tree("a is 1"), "line 1: found '1', expected a name");
  EXPECT_EQ(Tree("a b"), "line 1: found 'b', expected }}");
}

TEST(JinjaExpressionsTest, NestingIsBounded) {
  const auto nested = [](const std::string& open, const std::string& close, int depth) {
    std::string text = "1";
    for (int i = 0; i < depth; ++i) text = open + text + close;
    return Tree(text);
  };
  for (const auto& [open, close] : {std::pair("(", ")"), {"[", "]"}, {"not ", ""}, {"- ", ""}, {"f(", ")"}}) {
    EXPECT_EQ(nested(open, close, 40).find("nesting"), std::string::npos) << open;
    EXPECT_THAT(nested(open, close, 300), ::testing::HasSubstr("expected nesting of at most 200")) << open;
  }
}

}  // namespace
}  // namespace numoe::text::jinja
