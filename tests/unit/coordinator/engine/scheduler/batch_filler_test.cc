// The batch for the model: the tokens that follow the cached ones, the rows of logits that are read, and how
// to draw.
#include "coordinator/engine/scheduler/batch_filler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using ::testing::ElementsAre;

constexpr int kVocab = 100;

SequencePtr Asking(SamplingParams sampling, int64_t cached = 0) {
  auto s = std::make_unique<Sequence>(EngineRequest{.prompt = {5, 6, 7, 8}, .sampling = std::move(sampling)},
                                      SequenceLimits{.tokens_max = 20, .vocab = kVocab});
  s->kv.cached = cached;
  s->kv.blocks = {3, 9};
  return s;
}

struct Refusing : execution::TokenConstraint {
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override { return absl::InternalError("no mask"); }
  void Accept(TokenId) override { ADD_FAILURE() << "no token was drawn"; }
};

TEST(BatchFillerTest, APartHasTheTokensAfterTheCachedOnes) {
  const TokenDrawer drawer(kVocab);
  BatchFiller filler(drawer, /*deterministic=*/true);
  std::vector<SequencePtr> running;
  running.push_back(Asking({}));
  running.push_back(Asking({}, 2));
  const execution::StepBatch& batch =
      filler.Fill({{.sequence = 1, .tokens = 2}, {.sequence = 0, .tokens = 3}}, running, false);
  EXPECT_TRUE(batch.deterministic);
  ASSERT_EQ(batch.sequences.size(), 2u);
  EXPECT_THAT(batch.sequences[0].tokens, ElementsAre(7, 8));
  EXPECT_EQ(batch.sequences[0].position, 2);
  EXPECT_THAT(batch.sequences[0].blocks, ElementsAre(3, 9));
  EXPECT_EQ(batch.sequences[0].logits_last, 1);
  EXPECT_THAT(batch.sequences[1].tokens, ElementsAre(5, 6, 7));
  EXPECT_EQ(batch.sequences[1].logits_last, 0) << "the prompt continues in a later step";
  EXPECT_EQ(batch.sequences[0].sample, nullptr) << "the host draws the token";
  EXPECT_EQ(filler.Fill({{.sequence = 0, .tokens = 1}}, running, false).sequences.size(), 1u);
}

TEST(BatchFillerTest, APromptWithRequestedProbabilitiesNeedsTheRowsOfAllItsTokens) {
  const TokenDrawer drawer(kVocab);
  BatchFiller filler(drawer, /*deterministic=*/false);
  std::vector<SequencePtr> running;
  running.push_back(Asking({.prompt_logprobs = 0}));
  EXPECT_EQ(filler.Fill({{.tokens = 3}}, running, false).sequences[0].logits_last, 3);
  running[0]->kv.cached = 3;
  running[0]->drawing.scored = 2;  // the row of the third token was lost with its step
  EXPECT_EQ(filler.Fill({{.tokens = 1}}, running, false).sequences[0].logits_last, 2);
  running[0]->drawing.scored = 3;
  EXPECT_EQ(filler.Fill({{.tokens = 1}}, running, false).sequences[0].logits_last, 1);
}

TEST(BatchFillerTest, AModelThatDrawsGetsASpecOnlyWhereATokenFollows) {
  const TokenDrawer drawer(kVocab);
  BatchFiller filler(drawer, /*deterministic=*/false);
  std::vector<SequencePtr> running;
  running.push_back(Asking({.top_k = 7}, 3));    // draws its next token
  running.push_back(Asking({}, 1));              // its prompt continues in a later step
  running.push_back(Asking({.max_tokens = 0}));  // only its prompt is to be computed
  running.push_back(Asking({.top_k = 9}, 3));
  const execution::StepBatch& batch = filler.Fill({{.sequence = 0, .tokens = 1},
                                                   {.sequence = 1, .tokens = 2},
                                                   {.sequence = 2, .tokens = 4},
                                                   {.sequence = 3, .tokens = 1}},
                                                  running, true);
  ASSERT_NE(batch.sequences[0].sample, nullptr);
  EXPECT_EQ(batch.sequences[0].sample->choice.top_k, 7);
  EXPECT_EQ(batch.sequences[0].sample->choice.position, 4);
  EXPECT_EQ(batch.sequences[1].sample, nullptr);
  EXPECT_EQ(batch.sequences[2].sample, nullptr);
  ASSERT_NE(batch.sequences[3].sample, nullptr);
  EXPECT_EQ(batch.sequences[3].sample->choice.top_k, 9);
}

TEST(BatchFillerTest, AConstraintThatFailsLeavesDrawingToTheHost) {
  const TokenDrawer drawer(kVocab);
  BatchFiller filler(drawer, /*deterministic=*/false);
  std::vector<SequencePtr> running;
  running.push_back(
      std::make_unique<Sequence>(EngineRequest{.prompt = {5}, .constraint = std::make_unique<Refusing>()},
                                 SequenceLimits{.tokens_max = 20, .vocab = kVocab}));
  const execution::StepBatch& batch = filler.Fill({{.tokens = 1}}, running, true);
  EXPECT_EQ(batch.sequences[0].sample, nullptr);
  EXPECT_EQ(batch.sequences[0].logits_last, 1);
}

}  // namespace
}  // namespace numoe::engine
