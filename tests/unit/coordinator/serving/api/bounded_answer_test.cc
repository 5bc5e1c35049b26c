// Words that an answer must not contain, and reasoning that has used up its budget; alone, and together with
// the other constraint of the answer.
#include "coordinator/serving/api/bounded_answer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"

namespace numoe::serving {
namespace {

using ::testing::HasSubstr;

constexpr TokenId kBegin = 256, kFinish = 257, kCall = 258, kStop = 259;

class BoundedAnswerTest : public ::testing::Test {
 protected:
  void Bound(const GenerationRequest& request, std::optional<text::Mark> prompt_mark = std::nullopt) {
    const AnswerOutline outline{.format = format_, .prompt_mark = prompt_mark};
    auto inner = ConstrainAnswer(request, outline, grammars_);
    ASSERT_EQ(inner.index(), 0u) << std::get<net::ApiError>(inner).message;
    auto bound = BoundAnswer(std::get<0>(std::move(inner)), request, outline,
                             ForbidWords(request, grammars_, format_, tokenizer_), *grammars_.vocabulary());
    ASSERT_EQ(bound.index(), 0u) << std::get<net::ApiError>(bound).message;
    constraint_ = std::get<0>(std::move(bound));
  }
  bool May(TokenId token) {
    const auto mask = constraint_->Mask();
    EXPECT_TRUE(mask.ok()) << mask.status();
    return mask.ok() &&
           (mask->empty() || ((*mask)[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0);
  }
  // The number of tokens that are allowed next.
  int Count() {
    int count = 0;
    for (TokenId token = 0; token <= kStop; ++token) count += May(token) ? 1 : 0;
    return count;
  }
  void Say(const std::string& text) {
    for (const char c : text) {
      const auto token = static_cast<uint8_t>(c);
      ASSERT_TRUE(May(token)) << "'" << c << "' of " << text;
      constraint_->Accept(token);
    }
  }
  static GenerationRequest Thinking(int budget) {
    GenerationRequest request;
    request.thinking_budget = budget;
    request.thinking_budget_param = "thinking_token_budget";
    return request;
  }

  const ByteTokenizer tokenizer_{{"!<think>", "!</think>", "!<call>", "!<end>"}};
  const std::vector<TokenId> end_ = {kStop};
  text::GrammarCache grammars_{text::GrammarVocabulary::Build(tokenizer_, end_)};
  text::OutputFormat format_{.marks = {{kBegin, text::Mark::kThinkBegin},
                                       {kFinish, text::Mark::kThinkEnd},
                                       {kCall, text::Mark::kCallBegin}}};
  std::unique_ptr<execution::TokenConstraint> constraint_;
};

TEST_F(BoundedAnswerTest, WithoutLimitsThereIsNoConstraint) {
  Bound({});
  EXPECT_EQ(constraint_, nullptr);
}

TEST_F(BoundedAnswerTest, AWordIsNeverCompleted) {
  GenerationRequest request;
  request.bad_words = {"cat", "é"};
  Bound(request);
  EXPECT_FALSE(constraint_->ends_text());
  Say("a ca");
  EXPECT_FALSE(May('t'));
  EXPECT_EQ(Count(), kStop) << "all tokens except one";
  Say("r c\xC3");
  EXPECT_FALSE(May(0xA9));
  constraint_->Accept(0xA8);
  Say("ca");
  constraint_->Accept(kFinish);
  EXPECT_TRUE(May('t')) << "text before and after a mark does not form one word";
}

TEST_F(BoundedAnswerTest, AStructureThatNeedsAForbiddenWordEndsTheRequest) {
  GenerationRequest request;
  request.bad_words = {"yes"};
  request.structure = text::GrammarSource{text::GrammarSource::Kind::kRegex, "(yes|no|yep)"};
  Bound(request);
  EXPECT_TRUE(constraint_->ends_text());
  Say("ye");
  EXPECT_FALSE(May('s'));
  EXPECT_TRUE(May('p'));
  request.structure->text = "yes";
  Bound(request);
  Say("ye");
  const auto mask = constraint_->Mask();
  EXPECT_TRUE(absl::IsInvalidArgument(mask.status()));
  EXPECT_THAT(mask.status().message(), HasSubstr("bad_words: "));
}

TEST_F(BoundedAnswerTest, ReasoningEndsWhenItsBudgetIsUsedUp) {
  Bound(Thinking(3), text::Mark::kThinkBegin);
  Say("ab");
  EXPECT_EQ(Count(), kStop + 1);
  Say("c");
  EXPECT_TRUE(May(kFinish));
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(Count(), 1) << "the mask is requested again, as after a failed step";
  constraint_->Accept(kFinish);
  Say("any content at all");
  constraint_->Accept(kBegin);
  EXPECT_EQ(Count(), 1) << "the budget has no tokens left for further reasoning";
}

TEST_F(BoundedAnswerTest, ReasoningThatEndsInTimeOrNeverBeginsIsNotConstrained) {
  Bound(Thinking(3));
  Say("no thought");
  constraint_->Accept(kBegin);
  Say("ab");
  constraint_->Accept(kCall);  // a call ends the reasoning as well
  Say("and what follows");
  EXPECT_EQ(Count(), kStop + 1);
}

TEST_F(BoundedAnswerTest, ABudgetOfZeroTokens) {
  Bound(Thinking(0), text::Mark::kThinkBegin);
  EXPECT_TRUE(May(kFinish));
  EXPECT_EQ(Count(), 1);
  Bound(Thinking(0));
  Say("x");
  constraint_->Accept(kBegin);
  EXPECT_EQ(Count(), 1);
}

TEST_F(BoundedAnswerTest, AGrammarBeginsAfterTheMark) {
  GenerationRequest request = Thinking(2);
  request.conversation.emplace();
  request.structure = text::GrammarSource{text::GrammarSource::Kind::kRegex, "[0-9]+"};
  Bound(request, text::Mark::kThinkBegin);
  Say("so");
  EXPECT_EQ(Count(), 1);
  constraint_->Accept(kFinish);
  EXPECT_FALSE(May('x'));
  Say("42");
  EXPECT_TRUE(May(kStop));
}

TEST_F(BoundedAnswerTest, ModelsWithoutMarksOfReasoningRefuseABudget) {
  format_.marks.clear();
  const AnswerOutline outline{.format = format_, .prompt_mark = std::nullopt};
  auto refused = BoundAnswer(nullptr, Thinking(3), outline, nullptr, *grammars_.vocabulary());
  ASSERT_EQ(refused.index(), 1u);
  EXPECT_EQ(std::get<net::ApiError>(refused).param, "thinking_token_budget");
  GenerationRequest anthropic = Thinking(3);
  anthropic.thinking_budget_param = "thinking";
  auto kept = BoundAnswer(nullptr, anthropic, outline, nullptr, *grammars_.vocabulary());
  ASSERT_EQ(kept.index(), 0u);
  EXPECT_EQ(std::get<0>(kept), nullptr);
}

}  // namespace
}  // namespace numoe::serving
