// Steps in two halves on the simulated GPU, with a real worker: they give the bits of whole steps and the
// logits of the reference, with calls from the host and in graphs, with hot and fetched experts, and when a
// worker or a call is lost.
#include "tests/unit/coordinator/execution/model/cuda_golden.h"

namespace numoe::execution {
namespace {

class CudaOverlapTest : public CudaGoldenTest {
 protected:
  // Two sequences: their prompts in one step and one after another, also in a step with a single token of the
  // other sequence; then single tokens of both, which are a graph if workers are reached directly: captured,
  // then replayed.
  absl::StatusOr<std::vector<float>> Run(int first_begin, int first_end, int second_begin, int second_end) {
    StepBatch batch{.sequences = {}, .deterministic = true};
    if (first_end > first_begin) batch.sequences.push_back(Sequence(first_begin, first_end));
    if (second_end > second_begin) {
      batch.sequences.push_back(Sequence(second_begin, second_end));
      batch.sequences.back().blocks = other_blocks_;
      batch.sequences.back().tokens =
          absl::MakeConstSpan(other_tokens_)
              .subspan(static_cast<size_t>(second_begin), static_cast<size_t>(second_end - second_begin));
    }
    const auto logits = model_->Forward(batch);
    if (!logits.ok()) return logits.status();
    return std::vector<float>(logits->values.begin(), logits->values.end());
  }
  std::vector<std::vector<float>> RunSteps() {
    std::vector<std::vector<float>> all;
    constexpr int kSteps[][4] = {{0, 8, 0, 8},     {8, 21, 8, 8},    {21, 22, 8, 19},  {22, 23, 19, 20},
                                 {23, 24, 20, 21}, {24, 26, 21, 22}, {26, 26, 22, 23}, {26, 29, 23, 27}};
    for (const auto& step : kSteps) {
      const auto logits = Run(step[0], step[1], step[2], step[3]);
      EXPECT_TRUE(logits.ok()) << logits.status();
      all.push_back(logits.value_or(std::vector<float>()));
    }
    return all;
  }

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CudaGoldenTest::SetUp());
    other_tokens_ = tokens_;
    std::reverse(other_tokens_.begin(), other_tokens_.end());
  }
  std::vector<TokenId> other_tokens_;
  const std::vector<KvBlockId> other_blocks_ = {3, 6, 11, 14};
};

// Runs twice; the second time every graph exists.
TEST_P(CudaOverlapTest, HalvesGiveTheBitsOfWholeSteps) {
  const std::vector<std::vector<float>> whole[] = {RunSteps(), RunSteps()};
  executions_.clear();
  overlap_tokens_ = kOverlapTokensMin;
  ASSERT_NO_FATAL_FAILURE(LoadModel());
  for (const auto& expected : whole) {
    const auto halved = RunSteps();
    for (size_t s = 0; s < expected.size(); ++s) EXPECT_EQ(halved[s], expected[s]) << "step " << s;
  }
  EXPECT_EQ(std::count(executions_.begin(), executions_.end(), ExpertExecution::kHalves), 14)
      << "all steps except those of one row";
}

TEST_P(CudaOverlapTest, HalvesMatchTheReference) {
  overlap_tokens_ = kOverlapTokensMin;
  ASSERT_NO_FATAL_FAILURE(LoadModel());
  const int count = static_cast<int>(tokens_.size());
  std::vector<float> logits;
  for (int begin = 0, end = count - 12; begin < count; begin = end, end = std::min(begin + 2, count)) {
    const auto step = Step(begin, end);
    ASSERT_TRUE(step.ok()) << step.status();
    logits.insert(logits.end(), step->begin(), step->end());
  }
  ExpectGolden(logits);
}

// In a graph, and with calls from the host, when a call of either half is lost.
TEST_P(CudaOverlapTest, ALostWorkersStepIsReplayed) {
  overlap_tokens_ = kOverlapTokensMin;
  ASSERT_NO_FATAL_FAILURE(LoadModel());
  ASSERT_TRUE(Run(0, 8, 0, 8).ok());
  const auto first = Run(8, 9, 8, 9);
  ASSERT_TRUE(first.ok()) << first.status();
  service_.reset();
  EXPECT_TRUE(absl::IsUnavailable(Run(8, 9, 8, 9).status()));
  Serve();
  ASSERT_TRUE(workers_->AwaitReady(kPatienceMs).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*Run(8, 9, 8, 9), *first);

  faulty_ = std::make_unique<FaultyBackend>(*workers_);
  ASSERT_NO_FATAL_FAILURE(LoadModel());
  ASSERT_TRUE(Run(0, 8, 0, 8).ok());
  const int calls = static_cast<int>(faulty_->TakeCalls().size());
  EXPECT_EQ(calls, 2 * std::count(config_.layer_is_moe.begin(), config_.layer_is_moe.end(), true));
  const auto next = Run(8, 13, 8, 9);
  ASSERT_TRUE(next.ok()) << next.status();
  for (int call = 0; call < calls; ++call) {
    faulty_->Lose(call, call % 3 == 0 ? FaultyBackend::At::kStart : FaultyBackend::At::kFinish);
    EXPECT_TRUE(absl::IsUnavailable(Run(8, 13, 8, 9).status())) << call;
    EXPECT_EQ(*Run(8, 13, 8, 9), *next) << call;
  }
}

// Hot experts are computed with their own half; a prompt whose experts are fetched is not halved.
TEST_P(CudaOverlapTest, ExpertsOnTheDeviceAreComputedWithTheirHalf) {
  overlap_tokens_ = kOverlapTokensMin;
  ASSERT_NO_FATAL_FAILURE(LoadModel());
  const bool fetches = device_->FetchExperts(kFetchedTokens).ok();
  EXPECT_EQ(fetches, GetParam().path == DataPath::kSharedMemory);
  auto hot =
      HotExperts::Create(std::move(model_), *checkpoint_, *slots_,
                         {.half_life_s = 1e-3, .interval_s = 0, .observe = [](const HotExpertsReport&) {}});
  ASSERT_TRUE(hot.ok()) << hot.status();
  model_ = *std::move(hot);
  const int count = static_cast<int>(tokens_.size());
  std::vector<float> logits;
  for (int begin = 0, end = 12; begin < count; begin = end, end = std::min(begin + 2, count)) {
    const auto step = Step(begin, end);
    ASSERT_TRUE(step.ok()) << step.status();
    logits.insert(logits.end(), step->begin(), step->end());
    EXPECT_EQ(executions_.back(),
              fetches && begin == 0 ? ExpertExecution::kFetched : ExpertExecution::kHalves)
        << begin;
  }
  ExpectGolden(logits);
}

INSTANTIATE_TEST_SUITE_P(All, CudaOverlapTest,
                         ::testing::Values(Golden{"deepseek-v3-bf16"}, Golden{"kimi-k2-thinking-int4"},
                                           Golden{"qwen3-moe-fp8"}, Golden{"tiny-chat", DataPath::kGrpc},
                                           Golden{"nano"}),
                         [](const auto& param_info) { return Name(param_info.param); });

}  // namespace
}  // namespace numoe::execution
