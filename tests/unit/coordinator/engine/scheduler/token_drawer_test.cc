// Drawing a token with sampling parameters, rules, allowed tokens and constraints together.
#include "coordinator/engine/scheduler/token_drawer.h"

#include <limits>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kDrawnVocab = 70;

// Allows the tokens of one bit mask, and records the calls.
class Fixed final : public execution::TokenConstraint {
 public:
  explicit Fixed(std::vector<TokenId> allowed) : mask_(2) {
    for (const TokenId token : allowed) mask_[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  }
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override {
    ++asked;
    if (!error.ok()) return error;
    return absl::MakeConstSpan(mask_);
  }
  void Accept(TokenId token) override { accepted.push_back(token); }

  int asked = 0;
  absl::Status error;
  std::vector<TokenId> accepted;

 private:
  std::vector<uint64_t> mask_;
};

SequencePtr Greedy(SamplingParams sampling = {},
                   std::unique_ptr<execution::TokenConstraint> constraint = nullptr) {
  sampling.temperature = 0;
  EngineRequest request{.prompt = {1, 2, 3}, .sampling = std::move(sampling)};
  request.constraint = std::move(constraint);
  return *MakeSequence(std::move(request), {.tokens_max = 100, .vocab = kDrawnVocab, .eos_token_ids = {0}});
}

// Logits that ascend with the token's id.
std::vector<float> Ascending() {
  std::vector<float> logits(kDrawnVocab + 10);
  std::iota(logits.begin(), logits.end(), 0.0f);
  return logits;
}

TEST(TokenDrawerTest, PaddingBeyondTheVocabularyIsNeverDrawn) {
  TokenDrawer drawer(kDrawnVocab);
  const auto s = Greedy();
  EXPECT_EQ(drawer.Draw(*s, {.logits = Ascending()})->token, kDrawnVocab - 1);
}

TEST(TokenDrawerTest, AllowedTokensAndAConstraintAreCombined) {
  TokenDrawer drawer(kDrawnVocab);
  auto constraint = std::make_unique<Fixed>(std::vector<TokenId>{5, 69});
  Fixed& fixed = *constraint;
  const auto s = Greedy({.allowed_token_ids = {5, 65}}, std::move(constraint));
  EXPECT_EQ(drawer.Draw(*s, {.logits = Ascending()})->token, 5);
  EXPECT_THAT(fixed.accepted, ElementsAre(5));
  EXPECT_EQ(drawer.Draw(*Greedy({.allowed_token_ids = {5, 65}}), {.logits = Ascending()})->token, 65);
}

TEST(TokenDrawerTest, AConstraintIsAskedForOneMaskPerToken) {
  TokenDrawer drawer(kDrawnVocab);
  auto constraint = std::make_unique<Fixed>(std::vector<TokenId>{7});
  Fixed& fixed = *constraint;
  const auto s = Greedy({}, std::move(constraint));
  const auto spec = drawer.SpecOf(*s);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->vocab, kDrawnVocab);
  EXPECT_EQ(spec->choice.allowed.size(), 2u);
  EXPECT_EQ(drawer.Draw(*s, {.logits = Ascending()})->token, 7);
  EXPECT_EQ(fixed.asked, 1) << "it was asked once, not before the step and again after it";
  EXPECT_EQ(drawer.Draw(*s, {.logits = Ascending()})->token, 7);
  EXPECT_EQ(fixed.asked, 2);
}

TEST(TokenDrawerTest, ATokenThatADeviceDrewIsReportedToRulesAndConstraint) {
  TokenDrawer drawer(kDrawnVocab);
  auto constraint = std::make_unique<Fixed>(std::vector<TokenId>{3, 4});
  Fixed& fixed = *constraint;
  const auto s = Greedy({.frequency_penalty = 2}, std::move(constraint));
  const absl::StatusOr<execution::DrawnToken> drawn = execution::DrawnToken{.token = 4};
  EXPECT_EQ(drawer.Draw(*s, {.drawn = &drawn})->token, 4);
  EXPECT_THAT(fixed.accepted, ElementsAre(4));
  EXPECT_EQ(drawer.Draw(*s, {.logits = Ascending()})->token, 3) << "4 was counted, so it is penalised";
}

TEST(TokenDrawerTest, ErrorsFailTheSequence) {
  TokenDrawer drawer(kDrawnVocab);
  auto constraint = std::make_unique<Fixed>(std::vector<TokenId>{6});
  Fixed& fixed = *constraint;
  const auto s = Greedy({.allowed_token_ids = {5}}, std::move(constraint));
  EXPECT_THAT(drawer.Draw(*s, {.logits = Ascending()}).status().ToString(),
              HasSubstr("allowed_token_ids: none of these tokens may follow"));
  EXPECT_TRUE(fixed.accepted.empty());
  s->drawing.mask.reset();
  fixed.error = absl::ResourceExhaustedError("too many");
  EXPECT_THAT(drawer.SpecOf(*s).status().ToString(), HasSubstr("too many"));
  std::vector<float> broken = Ascending();
  broken[8] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(absl::IsDataLoss(drawer.Draw(*Greedy(), {.logits = broken}).status()));
  const absl::StatusOr<execution::DrawnToken> lost = absl::DataLossError("device");
  EXPECT_TRUE(absl::IsDataLoss(drawer.Draw(*Greedy(), {.drawn = &lost}).status()));
}

TEST(TokenDrawerTest, ProbabilitiesAreThoseOfTheModelWithoutRules) {
  TokenDrawer drawer(kDrawnVocab);
  const auto s = Greedy({.logit_bias = {{2, 1000.0f}}, .logprobs = 1, .prompt_logprobs = 0});
  const auto drawn = drawer.Draw(*s, {.logits = Ascending()});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->token, 2) << "the bias selects it";
  ASSERT_EQ(drawn->logprobs.size(), 1u);
  EXPECT_EQ(drawn->logprobs[0].top[0].token, kDrawnVocab - 1) << "its probability does not include the bias";
  EXPECT_EQ(drawn->logprobs[0].rank, kDrawnVocab - 2);
  EXPECT_EQ(s->unscored(), 2);
  EXPECT_TRUE(drawer.Score(*s, Ascending()).ok());
  EXPECT_TRUE(drawer.Score(*s, Ascending()).ok());
  EXPECT_EQ(s->unscored(), 0);
  EXPECT_EQ(s->drawing.scores[0].chosen.token, 2);
  EXPECT_EQ(s->drawing.scores[1].chosen.token, 3);
}

TEST(StepRowsTest, RowsThatWereDrawnHaveNoLogits) {
  const std::vector<float> values = {1, 2, 3, 4};
  const std::vector<execution::DrawnRow> drawn = {std::nullopt, execution::DrawnToken{.token = 9},
                                                  std::nullopt};
  const execution::StepLogits logits{.rows = 2, .vocab_size = 2, .values = values, .drawn = drawn};
  StepRows rows(logits);
  EXPECT_THAT(rows.Next().logits, ElementsAre(1, 2));
  EXPECT_EQ((*rows.Next().drawn)->token, 9);
  EXPECT_THAT(rows.Next().logits, ElementsAre(3, 4)) << "the second row of logits is the third of the step";
  EXPECT_EQ(rows.taken(), 3u);
  StepRows skipped(logits);
  skipped.SkipTo(2);
  EXPECT_THAT(skipped.Next().logits, ElementsAre(3, 4));
}

}  // namespace
}  // namespace numoe::engine
