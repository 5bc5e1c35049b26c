// Which rules are copied into their users.
#include "coordinator/text/grammar/inlining.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

TEST(InliningTest, SmallRulesAreCopied) {
  Expressions e;
  const RuleId root = e.AddRule("root", false), word = e.AddRule("word", false);
  e.SetBody(word, e.Literal("abc"));
  e.SetBody(root, e.Sequence({e.Call(word), e.Literal(","), e.Call(word)}));
  const auto inlined = ChooseInlined(e, root, {});
  EXPECT_TRUE(inlined[static_cast<size_t>(word)]);
  EXPECT_FALSE(inlined[static_cast<size_t>(root)]) << "the root is called";
}

TEST(InliningTest, SharedAndRecursiveRulesAreCalled) {
  Expressions e;
  const RuleId root = e.AddRule("root", false), shared = e.AddRule("shared", true),
               list = e.AddRule("list", false), item = e.AddRule("item", false);
  e.SetBody(shared, e.Literal("s"));
  e.SetBody(list, e.Choice({e.Literal("x"), e.Call(item)}));
  e.SetBody(item, e.Sequence({e.Literal("("), e.Call(list), e.Literal(")")}));
  e.SetBody(root, e.Sequence({e.Call(shared), e.Call(list)}));
  const auto inlined = ChooseInlined(e, root, {});
  EXPECT_FALSE(inlined[static_cast<size_t>(shared)]);
  EXPECT_FALSE(inlined[static_cast<size_t>(list)]) << "the rule at which a cycle of calls closes is called";
  EXPECT_TRUE(inlined[static_cast<size_t>(item)]) << "the other rules of the cycle are copied";
}

TEST(InliningTest, LargeRulesAreCopiedOnlyOnce) {
  Expressions e;
  const RuleId root = e.AddRule("root", false), once = e.AddRule("once", false),
               twice = e.AddRule("twice", false);
  e.SetBody(once, e.Literal(std::string(5000, 'a')));
  e.SetBody(twice, e.Repeat(e.Literal("b"), 0, 3000));
  const ExprId first = e.Call(twice), second = e.Sequence({e.Literal("-"), e.Call(twice)});
  const RuleId other = e.AddRule("other", true);
  e.SetBody(other, second);
  e.SetBody(root, e.Sequence({e.Call(once), first, e.Call(other)}));
  const auto inlined = ChooseInlined(e, root, {});
  EXPECT_TRUE(inlined[static_cast<size_t>(once)]);
  EXPECT_FALSE(inlined[static_cast<size_t>(twice)]) << "two copies of 3,000 states";
}

TEST(InliningTest, LongChainsAreBrokenWithinTheNestingLimit) {
  Expressions e;
  std::vector<RuleId> chain;
  for (int i = 0; i < 50; ++i) chain.push_back(e.AddRule("r" + std::to_string(i), false));
  for (size_t i = 0; i + 1 < chain.size(); ++i)
    e.SetBody(chain[i], e.Sequence({e.Literal("a"), e.Call(chain[i + 1])}));
  e.SetBody(chain.back(), e.Literal("z"));
  const auto inlined = ChooseInlined(e, chain[0], {.nesting = 40});
  size_t longest = 0, run = 0;
  for (const RuleId rule : chain)
    longest = std::max(longest, run = inlined[static_cast<size_t>(rule)] ? run + 1 : 0);
  EXPECT_LE(longest, 40u / 4);
  EXPECT_GT(longest, 1u);
}

}  // namespace
}  // namespace numoe::text::grammar
