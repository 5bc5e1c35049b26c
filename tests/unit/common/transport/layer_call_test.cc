// Divides calls that ask for two replies.
#include "common/transport/layer_call.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;

class SplitCallTest : public ::testing::Test {
 protected:
  LayerCallView Call(int deferred) const {
    return {.instance = 9,
            .layer = 3,
            .tokens = 2,
            .experts_per_token = 3,
            .deferred_experts = deferred,
            .batch_invariant = true,
            .hidden = hidden_,
            .experts = experts_,
            .weights = weights_};
  }
  const std::vector<float> hidden_ = {1, 2, 3, 4}, weights_ = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
  const std::vector<ExpertId> experts_ = {0, 3, 2, 1, kNoExpert, 5};
  SplitCall split_;
};

TEST_F(SplitCallTest, EachPartHasItsExpertsOfEveryToken) {
  const LayerCallView call = Call(1);
  split_.Split(call);
  const LayerCallView& immediate = split_.part(ReplyPart::kImmediate);
  const LayerCallView& deferred = split_.part(ReplyPart::kDeferred);
  EXPECT_THAT(immediate.experts, ElementsAre(0, 3, 1, kNoExpert));
  EXPECT_THAT(immediate.weights, ElementsAre(0.1f, 0.2f, 0.4f, 0.5f));
  EXPECT_THAT(deferred.experts, ElementsAre(2, 5));
  EXPECT_THAT(deferred.weights, ElementsAre(0.3f, 0.6f));
  EXPECT_EQ(immediate.experts_per_token, 2);
  EXPECT_EQ(deferred.experts_per_token, 1);
  for (const LayerCallView* part : {&immediate, &deferred}) {
    EXPECT_EQ(part->instance, 9u);
    EXPECT_EQ(part->layer, 3);
    EXPECT_EQ(part->tokens, 2);
    EXPECT_EQ(part->deferred_experts, 0);
    EXPECT_TRUE(part->batch_invariant);
    EXPECT_EQ(part->hidden.data(), call.hidden.data());
  }
}

TEST_F(SplitCallTest, WithoutDeferredExpertsNothingIsCopied) {
  split_.Split(Call(2));
  const LayerCallView call = Call(0);
  split_.Split(call);
  EXPECT_EQ(split_.part(ReplyPart::kImmediate).experts.data(), call.experts.data());
  EXPECT_EQ(split_.part(ReplyPart::kDeferred).tokens, 0) << "nothing is left of the call before";
}

TEST_F(SplitCallTest, AllOrLessThanNoneCannotBeDeferred) {
  EXPECT_DEATH(split_.Split(Call(3)), "3 of 3");
  EXPECT_DEATH(split_.Split(Call(-1)), "-1 of 3");
}

}  // namespace
}  // namespace numoe
