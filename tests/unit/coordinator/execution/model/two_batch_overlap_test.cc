// In deterministic mode steps in two halves give the bits of whole steps, with any contents and with lost
// workers: on the CPU device, for checkpoints with latent and with grouped attention, with and without dense
// layers and shared experts. cuda_overlap_test.cc tests the CUDA device.
#include <algorithm>
#include <filesystem>
#include <random>

#include "coordinator/execution/device/cpu/cpu_device.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/local_backend.h"
#include "expert_worker/experts/expert_executor.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_backend.h"

namespace numoe::execution {
namespace {

constexpr int kOverlapBlockTokens = 4;
constexpr int kSequences = 5;
constexpr int kBlocksEach = 20;

// A sequence's part of a step: its next `tokens` tokens.
struct Piece {
  int sequence = 0;
  int tokens = 0;
  int logits = 1;
};
using Step = std::vector<Piece>;

class TwoBatchOverlapTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    const std::filesystem::path dir =
        name == "nano" ? "deploy/models/nano" : std::filesystem::path("tests/golden/data") / name;
    auto checkpoint = Checkpoint::Open(dir);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
    config_ = *ReadModelConfig(dir);
    for (int w = 0; w < 2; ++w) {
      auto executor = worker::ExpertExecutor::Load(
          *checkpoint_, config_,
          {.slice = {.mode = worker::SliceMode::kExpert, .worker_index = w, .worker_count = 2},
           .threads = 2});
      ASSERT_TRUE(executor.ok()) << executor.status();
      executors_.push_back(*std::move(executor));
    }
    local_ =
        std::make_unique<LocalBackend>(std::vector<LayerExecutor*>{executors_[0].get(), executors_[1].get()});
    backend_ = std::make_unique<FaultyBackend>(*local_);
    std::mt19937 random(11);
    for (auto& tokens : tokens_) {
      tokens.resize(kBlocksEach * kOverlapBlockTokens);
      for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 200);
    }
    for (int b = 0; b < kSequences * kBlocksEach; ++b) blocks_.push_back(b);
    std::shuffle(blocks_.begin(), blocks_.end(), random);
  }

  void Load(int overlap_tokens, int deferred = 0) {
    model_.reset();
    auto device = CpuDevice::Create({.step_tokens_max = 128, .cpus = {0, 0, 0}});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto model = Model::Load(
        *checkpoint_, config_,
        {.kv_block_tokens = kOverlapBlockTokens,
         .kv_blocks = kSequences * kBlocksEach,
         .deferred_experts = deferred,
         .overlap_tokens = overlap_tokens,
         .observe_expert_execution = [this](ExpertExecution execution) { executions_.push_back(execution); }},
        *device_, deferred > 0 ? static_cast<ExpertBackend&>(*local_) : *backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    std::fill(std::begin(at_), std::end(at_), 0);
    executions_.clear();
  }

  // Sequences advance only if the step did not fail.
  absl::StatusOr<std::vector<float>> Run(const Step& step) {
    StepBatch batch{.sequences = {}, .deterministic = true};
    for (const Piece& piece : step) {
      const auto s = static_cast<size_t>(piece.sequence);
      batch.sequences.push_back(
          {.tokens = absl::MakeConstSpan(tokens_[s])
                         .subspan(static_cast<size_t>(at_[s]), static_cast<size_t>(piece.tokens)),
           .position = at_[s],
           .blocks = absl::MakeConstSpan(blocks_).subspan(s * kBlocksEach, kBlocksEach),
           .logits_last = piece.logits});
    }
    const auto logits = model_->Forward(batch);
    if (!logits.ok()) return logits.status();
    for (const Piece& piece : step) at_[piece.sequence] += piece.tokens;
    return std::vector<float>(logits->values.begin(), logits->values.end());
  }
  std::vector<std::vector<float>> RunAll(const std::vector<Step>& steps) {
    std::vector<std::vector<float>> all;
    for (const Step& step : steps) {
      const auto logits = Run(step);
      EXPECT_TRUE(logits.ok()) << logits.status();
      all.push_back(logits.value_or(std::vector<float>()));
    }
    return all;
  }
  int MoeLayers() const {
    return static_cast<int>(std::count(config_.layer_is_moe.begin(), config_.layer_is_moe.end(), true));
  }

  std::unique_ptr<Checkpoint> checkpoint_;
  ModelConfig config_;
  std::vector<std::unique_ptr<worker::ExpertExecutor>> executors_;
  std::unique_ptr<LocalBackend> local_;
  std::unique_ptr<FaultyBackend> backend_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Model> model_;
  std::vector<TokenId> tokens_[kSequences];
  std::vector<KvBlockId> blocks_;
  int at_[kSequences] = {};  // tokens of each sequence so far
  std::vector<ExpertExecution> executions_;
};

// Every kind of step; later steps read the cache that earlier ones have written.
const std::vector<Step> kSteps = {
    {{.sequence = 0, .tokens = 37, .logits = 37}},  // one prompt
    {{.sequence = 1, .tokens = 2, .logits = 2}},    // two rows
    {{.sequence = 2, .tokens = 13}, {.sequence = 3, .tokens = 5}, {.sequence = 4, .tokens = 20}},
    {{.sequence = 0, .tokens = 1}, {.sequence = 1, .tokens = 1}},  // single tokens
    {{.sequence = 0, .tokens = 1}, {.sequence = 1, .tokens = 1}, {.sequence = 2, .tokens = 1}},
    {{.sequence = 0, .tokens = 1}, {.sequence = 1, .tokens = 40}, {.sequence = 2, .tokens = 1}},  // both
    {{.sequence = 3, .tokens = 30, .logits = 0}, {.sequence = 4, .tokens = 1}},  // part of a prompt
    {{.sequence = 3, .tokens = 9, .logits = 0}},                                 // no logits at all
    {{.sequence = 4, .tokens = 1}},  // one row, so it is not halved
    {{.sequence = 0, .tokens = 1},
     {.sequence = 1, .tokens = 1},
     {.sequence = 2, .tokens = 1},
     {.sequence = 3, .tokens = 1},
     {.sequence = 4, .tokens = 1}},
};

TEST_P(TwoBatchOverlapTest, HalvesGiveTheBitsOfWholeSteps) {
  ASSERT_NO_FATAL_FAILURE(Load(kNoOverlap));
  const auto whole = RunAll(kSteps);
  EXPECT_EQ(executions_, std::vector<ExpertExecution>(kSteps.size(), ExpertExecution::kWhole));
  ASSERT_NO_FATAL_FAILURE(Load(kOverlapTokensMin));
  const auto halved = RunAll(kSteps);
  for (size_t s = 0; s < kSteps.size(); ++s) {
    EXPECT_EQ(halved[s], whole[s]) << "step " << s;
    EXPECT_EQ(executions_[s] == ExpertExecution::kHalves, s != 8) << "step " << s;
  }
}

// Each layer has two calls: that of its first half, then that of its second half.
TEST_P(TwoBatchOverlapTest, TheCallsOfBothHalvesAlternate) {
  ASSERT_NO_FATAL_FAILURE(Load(kOverlapTokensMin));
  ASSERT_TRUE(Run({{.sequence = 0, .tokens = 37}}).ok());
  std::vector<FaultyBackend::Call> expected;
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) {
    if (!config_.layer_is_moe[static_cast<size_t>(layer)]) continue;
    expected.push_back({layer, 16});
    expected.push_back({layer, 21});
  }
  EXPECT_EQ(backend_->TakeCalls(), expected);
}

// The call is lost before it is sent or on its way back, in either half of any layer.
TEST_P(TwoBatchOverlapTest, ALostCallsStepIsReplayed) {
  const Step prompt = {{.sequence = 0, .tokens = 21}, {.sequence = 1, .tokens = 4}};
  const Step next = {{.sequence = 0, .tokens = 1}, {.sequence = 1, .tokens = 11, .logits = 11}};
  ASSERT_NO_FATAL_FAILURE(Load(kNoOverlap));
  const auto whole = RunAll({prompt, next});
  for (int call = 0; call < 2 * MoeLayers(); ++call) {
    for (const FaultyBackend::At at : {FaultyBackend::At::kStart, FaultyBackend::At::kFinish}) {
      ASSERT_NO_FATAL_FAILURE(Load(kOverlapTokensMin));
      ASSERT_TRUE(Run(prompt).ok());
      backend_->Lose(call, at);
      EXPECT_TRUE(absl::IsUnavailable(Run(next).status()));
      EXPECT_TRUE(backend_->lost());
      const auto again = Run(next);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*again, whole[1]) << "call " << call;
    }
  }
}

TEST_P(TwoBatchOverlapTest, StepsThatDeferAreWhole) {
  ASSERT_NO_FATAL_FAILURE(Load(kOverlapTokensMin, /*deferred=*/1));
  RunAll({{{.sequence = 0, .tokens = 12}, {.sequence = 1, .tokens = 3}},
          {{.sequence = 0, .tokens = 1}, {.sequence = 1, .tokens = 1}}});
  EXPECT_EQ(executions_, (std::vector<ExpertExecution>{ExpertExecution::kHalves, ExpertExecution::kWhole}));
}

// The measured mode tries whole and halved steps, and no bit depends on the choice.
TEST_P(TwoBatchOverlapTest, MeasuringChangesNoBits) {
  const Step prompts = {{.sequence = 0, .tokens = 64}, {.sequence = 1, .tokens = 64, .logits = 64}};
  ASSERT_NO_FATAL_FAILURE(Load(kNoOverlap));
  const auto whole = Run(prompts);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_NO_FATAL_FAILURE(Load(kMeasuredOverlap));
  for (int n = 0; n < kTrialSteps; ++n) {
    std::fill(std::begin(at_), std::end(at_), 0);
    EXPECT_EQ(*Run(prompts), *whole) << n;
  }
  EXPECT_EQ(std::count(executions_.begin(), executions_.end(), ExpertExecution::kHalves), kTrialSteps / 2);
}

INSTANTIATE_TEST_SUITE_P(All, TwoBatchOverlapTest,
                         ::testing::Values("deepseek-v3-bf16", "kimi-k2-thinking-int4", "qwen3-moe-fp8",
                                           "nano"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace numoe::execution
