// Masks of tokens equal a trial of each token, and are kept.
#include "coordinator/text/grammar/token_masks.h"

#include "coordinator/text/grammar/front_ends.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

TEST(TokenMasksTest, MasksEqualATrialOfEachToken) {
  std::mt19937_64 random(2);
  for (const auto& [kind, source] : std::vector<std::pair<Kind, std::string>>{
           {Kind::kJsonObject, ""},
           {Kind::kRegex, "(abc|a+)*x{2,5}(é|日本)?"},
           {Kind::kRegex, "[a-z ]{0,12}(the)?"},
           {Kind::kChoice, R"(["abc", "ab", "the name", "true"])"},
           {Kind::kJsonSchema, R"({"type":"object","properties":{"name":{"type":"string"},
              "id":{"type":"integer"},"a":{"type":"array","items":{"type":"string","maxLength":9}}}})"}}) {
    const GrammarPtr grammar = Compiled(kind, source);
    ASSERT_NE(grammar, nullptr);
    for (int walk = 0; walk < 5; ++walk) {
      GrammarState state(grammar);
      const std::string text = RandomText(grammar, random);
      for (const char c : text.substr(0, 60)) {
        CheckMaskByTrying(state, *grammar);
        ASSERT_TRUE(state.Accept(static_cast<uint8_t>(c)));
      }
      CheckMaskByTrying(state, *grammar);
    }
  }
}

struct Masked {
  explicit Masked(const std::string& regex) {
    grammar::Expressions expressions;
    const auto root = grammar::Translate({.kind = Kind::kRegex, .text = regex}, {}, expressions);
    auto built = grammar::Program::Build(expressions, *root, {});
    program = std::make_unique<grammar::Program>(*std::move(built));
    masks = std::make_unique<grammar::TokenMasks>(program.get(), SmallVocabulary());
  }
  std::unique_ptr<grammar::Program> program;
  std::unique_ptr<grammar::TokenMasks> masks;
};

TEST(TokenMasksTest, AMaskIsComputedOnceAndKept) {
  const Masked m("(abc|true)+");
  EXPECT_EQ(m.masks->bytes(), 0u);
  grammar::TokenMasks::Mask spare;
  const auto* mask = &m.masks->Of(m.program->start(), spare);
  EXPECT_GT(m.masks->bytes(), 0u);
  const size_t bytes = m.masks->bytes();
  EXPECT_EQ(&m.masks->Of(m.program->start(), spare), mask);
  EXPECT_EQ(m.masks->bytes(), bytes);
}

TEST(TokenMasksTest, WarmingComputesMasksUpToANumberOfSteps) {
  const Masked none("(abc|true)+"), all("(abc|true)+");
  none.masks->Warm(0);
  EXPECT_EQ(none.masks->bytes(), 0u);
  all.masks->Warm(1'000'000);
  const size_t bytes = all.masks->bytes();
  grammar::TokenMasks::Mask spare;
  for (grammar::StateId state = 0; state < static_cast<grammar::StateId>(all.program->states()); ++state)
    all.masks->Of(state, spare);
  EXPECT_EQ(all.masks->bytes(), bytes) << "nothing was left to compute";
}

}  // namespace
}  // namespace numoe::text
