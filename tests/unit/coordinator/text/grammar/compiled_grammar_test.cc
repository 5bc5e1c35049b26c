// Grammars of every kind of source: their states, rollback, end tokens and forced bytes.
#include "coordinator/text/grammar/compiled_grammar.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

TEST(CompiledGrammarTest, RollbackRestoresEveryEarlierState) {
  const GrammarPtr grammar = Compiled(Kind::kJsonObject, "");
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    const std::string text = RandomText(grammar, random);
    GrammarState state(grammar);
    size_t at = 0;
    while (at < text.size()) {
      const size_t drafted = std::min<size_t>(1 + random() % 20, text.size() - at);
      for (size_t d = 0; d < drafted; ++d) ASSERT_TRUE(state.Accept(static_cast<uint8_t>(text[at + d])));
      const size_t rejected = random() % (drafted + 1);
      state.Rollback(rejected);
      at += drafted - rejected;
      GrammarState fresh(grammar);
      for (const char c : text.substr(0, at)) ASSERT_TRUE(fresh.Accept(static_cast<uint8_t>(c)));
      std::vector<uint64_t> mask(grammar->vocabulary().mask_words()), expected = mask;
      ASSERT_TRUE(state.FillMask(absl::MakeSpan(mask)).ok());
      ASSERT_TRUE(fresh.FillMask(absl::MakeSpan(expected)).ok());
      ASSERT_EQ(mask, expected) << text.substr(0, at);
    }
    EXPECT_TRUE(state.IsDone());
  }
}

TEST(CompiledGrammarTest, NothingFollowsTheEnd) {
  const GrammarPtr grammar = Compiled(Kind::kChoice, R"(["a"])");
  GrammarState state(grammar);
  const TokenId end = grammar->vocabulary().end_tokens()[0];
  EXPECT_FALSE(state.Accept(end));
  EXPECT_FALSE(state.Accept(-1));
  EXPECT_FALSE(state.Accept(grammar->vocabulary().size()));
  EXPECT_TRUE(state.Accept('a'));
  EXPECT_FALSE(state.Accept('a'));
  EXPECT_TRUE(state.Accept(end));
  EXPECT_TRUE(state.IsFinished());
  EXPECT_FALSE(state.Accept(end));
  state.Rollback(2);
  EXPECT_FALSE(state.IsFinished());
  EXPECT_TRUE(state.Accept('a'));
}

TEST(CompiledGrammarTest, AStateCanHaveItsOwnEndTokens) {
  const GrammarPtr grammar = Compiled(Kind::kChoice, R"(["a"])");
  const TokenId other = '}';  // stands for the end of a tool call
  GrammarState state(grammar, {&other, 1});
  EXPECT_FALSE(state.Accept(other));
  ASSERT_TRUE(state.Accept('a'));
  std::vector<uint64_t> mask(grammar->vocabulary().mask_words()), expected(mask.size());
  ASSERT_TRUE(state.FillMask(absl::MakeSpan(mask)).ok());
  grammar::SetBit(absl::MakeSpan(expected), other);
  EXPECT_EQ(mask, expected);
  EXPECT_FALSE(state.Accept(grammar->vocabulary().end_tokens()[0]));
  EXPECT_TRUE(state.Accept(other));
  EXPECT_TRUE(state.IsFinished());
}

TEST(CompiledGrammarTest, ForcedBytesAreThoseWithoutAChoice) {
  const GrammarPtr grammar =
      Compiled(Kind::kJsonSchema, R"({"type":"object","required":["name","kind"],"properties":
        {"name":{"const":"x"},"kind":{"enum":["abc","abd"]}}})");
  GrammarState state(grammar);
  EXPECT_EQ(state.ForcedBytes(100), R"({"name":)");
  EXPECT_EQ(state.ForcedBytes(3), "{\"n");
  for (const char c : std::string_view(R"({"name":")")) ASSERT_TRUE(state.Accept(static_cast<uint8_t>(c)));
  EXPECT_EQ(state.ForcedBytes(100), "x\",");
  for (const char c : std::string_view("x\", \"kind\": ")) ASSERT_TRUE(state.Accept(static_cast<uint8_t>(c)));
  EXPECT_EQ(state.ForcedBytes(100), "\"ab");
}

}  // namespace
}  // namespace numoe::text
