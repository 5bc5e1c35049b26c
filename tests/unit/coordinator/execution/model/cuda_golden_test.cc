// The whole model on the CUDA device, compared to the logits of the reference implementation. Its kernels run
// on the simulated GPU of tests/cuda_host, and its experts are real workers with shared memory. Prompts use
// the host, and decode steps use captured graphs and the workers' mailboxes.
//
// Tolerance. bf16_rounding_max is how far the reference's logits move when the inputs of its matrices are
// rounded to BF16 (tests/golden/README.md). This device also rounds queries, cache rows, attention's weights
// and results, in every layer, and a maximum over all logits grows faster than their mean: the worst logit
// may be off by four times as much, and the mean error is bounded by twice what was measured (1.4 % of the
// mean logit with random weights, where rounding changes the choice of experts, 0.15 % for the trained
// model).
#include "tests/unit/coordinator/execution/model/cuda_golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "coordinator/execution/device/cpu/cpu_device.h"
#include "coordinator/execution/sampling/sampler.h"
#include "tests/support/delaying_backend.h"

namespace numoe::execution {
namespace {

TEST_P(CudaGoldenTest, PromptThenTokenByTokenMatchesTheReference) {
  const int count = static_cast<int>(tokens_.size());
  const int prompt = count - 12;
  std::vector<float> logits;
  for (int begin = 0, end = prompt; begin < count; begin = end, end = begin + 1) {
    const auto step = Step(begin, end);
    ASSERT_TRUE(step.ok()) << step.status();
    logits.insert(logits.end(), step->begin(), step->end());
  }
  ExpectGolden(logits);
}

// A worker dies between two steps, or is lost when one begins: the step fails, is repeated when the worker is
// back, and gives the same bits.
TEST_P(CudaGoldenTest, ALostWorkersStepIsReplayed) { LoseAWorker(); }

// Experts are exchanged on the device while it serves. The logits still equal those of the reference, and
// selections are counted where they were computed.
TEST_P(CudaGoldenTest, HotExpertsAreExchangedWhileItServes) {
  HotExpertsReport all;
  auto hot = HotExperts::Create(
      std::move(model_), *checkpoint_, *slots_,
      {.half_life_s = 1e-3, .interval_s = 0, .observe = [&](const HotExpertsReport& report) {
         all.on_device += report.on_device;
         all.on_workers += report.on_workers;
         all.swaps += report.swaps;
       }});
  ASSERT_TRUE(hot.ok()) << hot.status();
  model_ = *std::move(hot);
  const int count = static_cast<int>(tokens_.size());
  std::vector<float> logits;
  for (int begin = 0, end = count - 24; begin < count; begin = end, end = begin + 1) {
    const auto step = Step(begin, end);
    ASSERT_TRUE(step.ok()) << step.status();
    logits.insert(logits.end(), step->begin(), step->end());
  }
  ExpectGolden(logits);
  // The last steps are not reported yet; padding is never counted.
  EXPECT_GT(all.on_device, 0u);
  EXPECT_GT(all.on_workers, 0u);
  EXPECT_LE(all.on_device + all.on_workers,
            static_cast<uint64_t>(count) * config_.num_layers * config_.experts_per_token);
  EXPECT_GT(all.swaps, 0u);
}

// Long prompts fetch their experts from the worker's memory and make no calls; short ones and decode steps
// still make calls. Without shared memory the workers compute all experts.
TEST_P(CudaGoldenTest, LongPromptsFetchTheirExperts) {
  const bool fetches = GetParam().path == DataPath::kSharedMemory;
  const absl::Status fetching = device_->FetchExperts(kFetchedTokens);
  EXPECT_EQ(fetching.ok(), fetches) << fetching;
  const int count = static_cast<int>(tokens_.size());
  std::vector<float> logits;
  for (int begin = 0, end = kFetchedTokens; begin < count;
       begin = end, end = begin == kFetchedTokens ? count - 4 : begin + 1) {
    const uint64_t calls = service_->Stats().calls;
    const auto step = Step(begin, end);
    ASSERT_TRUE(step.ok()) << step.status();
    logits.insert(logits.end(), step->begin(), step->end());
    EXPECT_EQ(service_->Stats().calls == calls, fetches && end - begin >= kFetchedTokens) << end - begin;
  }
  ExpectGolden(logits);
}

// Prompts fetch experts also with hot experts, and after their worker was lost: its memory is then mapped
// again.
TEST_P(CudaGoldenTest, FetchedPromptsSurviveALostWorker) {
  if (GetParam().path != DataPath::kSharedMemory) GTEST_SKIP() << "nothing is fetched over gRPC";
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) {
    if (!config_.layer_is_moe[static_cast<size_t>(layer)]) continue;
    const auto find = [&](const char* part, int rows, int cols) {
      return *checkpoint_->FindMatrix(
          fmt::format("{}model.layers.{}.mlp.experts.1.{}", config_.tensor_prefix, layer, part), rows, cols,
          config_);
    };
    const int hidden = config_.hidden_size, width = config_.moe_intermediate_size;
    ASSERT_TRUE(slots_
                    ->Fill(layer, 2,
                           {find("gate_proj", width, hidden), find("up_proj", width, hidden),
                            find("down_proj", hidden, width)})
                    .ok());
    slots_->Assign(layer, 2, 1);
  }
  ASSERT_TRUE(device_->FetchExperts(kFetchedTokens).ok());
  const auto first = Step(0, 16);
  ASSERT_TRUE(first.ok()) << first.status();
  service_.reset();
  while (workers_->Ready()) std::this_thread::yield();
  EXPECT_TRUE(absl::IsUnavailable(Step(0, 16).status()));
  Serve();
  ASSERT_TRUE(workers_->AwaitReady(kPatienceMs).ok());
  const uint64_t calls = service_->Stats().calls;
  const auto again = Step(0, 16);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *first);
  EXPECT_EQ(service_->Stats().calls, calls);
}

TEST_P(CudaGoldenTest, SlotsAreNotExchangedIfAnswersMustNotDependOnOtherRequests) {
  uint64_t swaps = 0;
  auto hot = HotExperts::Create(std::move(model_), *checkpoint_, *slots_,
                                {.half_life_s = 1e-3,
                                 .interval_s = 0,
                                 .exchange = false,
                                 .observe = [&](const HotExpertsReport& report) { swaps += report.swaps; }});
  ASSERT_TRUE(hot.ok()) << hot.status();
  model_ = *std::move(hot);
  ASSERT_TRUE(Step(0, 8).ok());
  const auto first = Step(8, 9);
  ASSERT_TRUE(first.ok()) << first.status();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(*Step(8, 9), *first);
  EXPECT_EQ(swaps, 0u);
}

TEST_P(CudaGoldenTest, SequencesOfABatchDoNotDisturbEachOther) {
  const std::vector<KvBlockId> others = {3, 6};
  const std::vector<TokenId> prompt(tokens_.begin() + 3, tokens_.begin() + 12);
  ASSERT_TRUE(Step(0, 8).ok());
  ASSERT_TRUE(model_->Forward({.sequences = {{.tokens = prompt, .blocks = others}}}).ok());
  const auto alone = Step(8, 9);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const TokenId next = 5;
  const auto both =
      model_->Forward({.sequences = {{.tokens = {&next, 1}, .position = 9, .blocks = others}, Sequence(8, 9)},
                       .deterministic = true});
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->rows, 2);
  double worst = 0;
  for (size_t i = 0; i < alone->size(); ++i)
    worst = std::max(worst, std::fabs(static_cast<double>((*alone)[i]) - both->values[alone->size() + i]));
  EXPECT_LE(worst, tolerance_);
}

// In the step of a prompt, in the step that is captured, and in a step of the graph.
TEST_P(CudaGoldenTest, TheDeviceDrawsTokens) {
  const int vocab = config_.vocab_size - 3;
  std::vector<uint64_t> odd(static_cast<size_t>(vocab + 63) / 64, 0xaaaaaaaaaaaaaaaa);
  LogitRules rules({.presence_penalty = 1, .repetition_penalty = 1.4, .bias = {{7, 2.0f}}}, tokens_, vocab);
  const auto draws = [&](const StepSequence& sequence, const std::vector<float>& logits) {
    for (int draw = 0; draw < 4; ++draw) {
      StepSequence asking = sequence;
      const SampleSpec spec = {
          .choice = {.temperature = 0.5 * draw,
                     .top_p = 0.95,
                     .seed = 3,
                     .position = 100 + draw,
                     .allowed = draw % 2 == 1 ? absl::MakeConstSpan(odd) : absl::Span<uint64_t>(),
                     .rules = draw >= 2 ? &rules : nullptr},
          .vocab = vocab,
          .logprobs = 2};
      asking.sample = &spec;
      const auto step = model_->Forward({.sequences = {asking}});
      ASSERT_TRUE(step.ok()) << step.status();
      ASSERT_EQ(step->drawn.size(), static_cast<size_t>(sequence.logits_last));
      ASSERT_EQ(step->rows, sequence.logits_last - 1);
      const auto last = absl::MakeConstSpan(logits).last(static_cast<size_t>(config_.vocab_size));
      EXPECT_TRUE(absl::MakeConstSpan(logits).first(step->values.size()) == step->values)
          << "the logits of the other rows";
      ASSERT_TRUE(step->drawn.back() && step->drawn.back()->ok());
      const DrawnToken& drawn = **step->drawn.back();
      EXPECT_EQ(drawn.token, *Sampler(vocab).Sample(last, spec.choice)) << draw;
      const auto expected = ReadLogprobs(last.first(static_cast<size_t>(vocab)), drawn.token, 2);
      ASSERT_EQ(drawn.logprobs.size(), 1u);
      EXPECT_EQ(drawn.logprobs[0].rank, expected->rank);
      EXPECT_NEAR(drawn.logprobs[0].chosen.logprob, expected->chosen.logprob, 1e-5);
      ASSERT_EQ(drawn.logprobs[0].top.size(), 2u);
      EXPECT_EQ(drawn.logprobs[0].top[1].token, expected->top[1].token);
    }
  };
  StepSequence prompt = Sequence(0, 8);
  prompt.logits_last = 3;  // not all rows, so no graph
  const auto read = model_->Forward({.sequences = {prompt}});
  ASSERT_TRUE(read.ok()) << read.status();
  draws(prompt, {read->values.begin(), read->values.end()});
  const auto first = Step(8, 9);
  ASSERT_TRUE(first.ok()) << first.status();
  draws(Sequence(8, 9), *first);
  EXPECT_EQ(*Step(8, 9), *first) << "the same graph, without drawing";
}

// --- expert deferral ---------------------------------------------------------------------------------------

// The expected logits are those of the CPU device and a backend that delays the sums itself.
class CudaDeferralTest : public CudaGoldenTest {
 protected:
  void SetUp() override {
    deferred_ = 3;
    ASSERT_NO_FATAL_FAILURE(CudaGoldenTest::SetUp());
    const std::vector<float> exact = expected_;
    const std::vector<bool>& moe = config_.layer_is_moe;
    const auto last = std::find(moe.rbegin(), moe.rend(), true);
    DelayingBackend delaying({executor_.get()}, static_cast<LayerId>(moe.rend() - last - 1));
    delaying.Defer(deferred_);
    auto device = CpuDevice::Create({.step_tokens_max = 64, .cpus = {0, 0}, .precision = Precision::kFloat});
    ASSERT_TRUE(device.ok()) << device.status();
    auto model = Model::Load(*checkpoint_, config_, ModelOptionsFor(0), **device, delaying);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto logits = (*model)->Forward({.sequences = {Sequence(0, static_cast<int>(tokens_.size()))}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    expected_.assign(logits->values.begin(), logits->values.end());
    double moved = 0, size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      moved += std::fabs(static_cast<double>(exact[i]) - expected_[i]);
      size += std::fabs(exact[i]);
    }
    RecordProperty("moved", std::to_string(moved / size));
    EXPECT_GT(moved, 2 * MeanError() * size) << "otherwise a device that defers nothing would pass";
  }
};

TEST_P(CudaDeferralTest, SumsArriveOneLayerLater) {
  const int count = static_cast<int>(tokens_.size());
  std::vector<float> logits;
  for (int begin = 0, end = count - 12; begin < count; begin = end, end = begin + 1) {
    const auto step = Step(begin, end);
    ASSERT_TRUE(step.ok()) << step.status();
    logits.insert(logits.end(), step->begin(), step->end());
  }
  ExpectGolden(logits);
}

TEST_P(CudaDeferralTest, ALostWorkersStepIsReplayed) { LoseAWorker(); }

const Golden kCudaGoldens[] = {{"deepseek-v3-bf16"},
                               {"kimi-k2-fp8"},
                               {"kimi-k2-thinking-int4"},
                               {"kimi-k2-thinking-int4", DataPath::kGrpc},
                               {"kimi-k25-int4"},
                               {"qwen3-moe-bf16"},
                               {"qwen3-moe-fp8"},
                               {"tiny-chat"},
                               {"nano"},
                               {"nano", DataPath::kGrpc}};
INSTANTIATE_TEST_SUITE_P(All, CudaGoldenTest, ::testing::ValuesIn(kCudaGoldens),
                         [](const auto& param_info) { return Name(param_info.param); });

// GGUF files are not listed, because they contain the weights of listed checkpoints.
TEST(CudaGoldenListTest, TheListContainsEveryCheckpoint) {
  std::set<std::string> listed, stored;
  for (const Golden& golden : kCudaGoldens) listed.insert(golden.name);
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/data")) {
    const std::string name = entry.path().filename();
    if (name.find("-gguf") == std::string::npos) stored.insert(name);
  }
  EXPECT_EQ(listed, stored);
}

INSTANTIATE_TEST_SUITE_P(All, CudaDeferralTest,
                         ::testing::Values(Golden{"deepseek-v3-bf16"}, Golden{"kimi-k2-thinking-int4"},
                                           Golden{"tiny-chat", DataPath::kGrpc}, Golden{"nano"},
                                           Golden{"nano", DataPath::kGrpc}),
                         [](const auto& param_info) { return Name(param_info.param); });

}  // namespace
}  // namespace numoe::execution
