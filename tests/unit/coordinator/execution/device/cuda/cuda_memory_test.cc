// A plan counts exactly the memory that a device allocates: a card with exactly those bytes loads the model
// and runs steps, and nothing is allocated after the start.
#include <numeric>

#include "coordinator/execution/device/cuda/allocation.h"
#include "coordinator/execution/device/cuda/cuda_device.h"
#include "coordinator/execution/device/cuda/measuring_device.h"
#include "coordinator/execution/model/hot_experts.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/startup/capacity_plan.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"

namespace numoe::execution::cuda {
namespace {

constexpr StepBounds kBounds{.rows = 48, .sequences = 3, .blocks_per_sequence = 6};
const ModelOptions kOptions{.kv_block_tokens = 16, .kv_blocks = 9, .logit_rows_max = 5};

// Experts whose sums are zero, so that every call is answered at once.
class ZeroExperts final : public ExpertBackend {
 public:
  absl::Status Start(const LayerCallView&) override { return absl::OkStatus(); }
  absl::Status Finish(absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
  bool Ready() const override { return true; }
};

struct Case {
  const char* checkpoint;
  int slots;
};

class CudaMemoryTest : public ::testing::TestWithParam<Case> {
 protected:
  absl::StatusOr<std::unique_ptr<Model>> Load(Device& device) {
    if (GetParam().slots > 0) {
      const auto spec = SlotSpecOf(*checkpoint_, config_, GetParam().slots);
      if (!spec.ok()) return spec.status();
      if (const auto slots = device.ReserveExperts(*spec); !slots.ok()) return slots.status();
    }
    return Model::Load(*checkpoint_, config_, kOptions, device, experts_);
  }
  DeviceMemory Measure() {
    const DeviceFacts facts = NewSimulatedRuntime()->facts();
    MeasuringDevice device(kBounds, facts);
    EXPECT_TRUE(Load(device).ok());
    return device.memory();
  }

  const std::string dir_ = std::string("tests/golden/data/") + GetParam().checkpoint;
  const std::unique_ptr<Checkpoint> checkpoint_ = *Checkpoint::Open(dir_);
  const ModelConfig config_ = *ReadModelConfig(dir_);
  ZeroExperts experts_;
};

TEST_P(CudaMemoryTest, ACardOfThePlannedBytesServes) {
  const DeviceMemory planned = Measure();
  auto device = CudaDevice::Create(kBounds, NewSimulatedRuntime({.memory_bytes = planned.total()}));
  ASSERT_TRUE(device.ok()) << device.status();
  const auto model = Load(**device);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*device)->memory().total(), planned.total());
  const std::vector<TokenId> prompt(40, 3);
  const std::vector<KvBlockId> blocks = {4, 0, 7};
  for (int position = 0; position < 44; position += position == 0 ? 40 : 1) {
    const auto tokens = absl::MakeConstSpan(prompt).subspan(0, position == 0 ? 40 : 1);
    const auto step =
        (*model)->Forward({.sequences = {{.tokens = tokens, .position = position, .blocks = blocks}}});
    ASSERT_TRUE(step.ok()) << step.status();
  }
}

TEST_P(CudaMemoryTest, ACacheThatFillsTheCardFits) {
  const DeviceMemory planned = Measure();
  DeviceMemory one = planned;
  one.kv_cache /= kOptions.kv_blocks;
  const uint64_t card = planned.total() - planned.kv_cache + 1000 * one.kv_cache + 17;
  ASSERT_EQ(startup::FittingCacheBlocks(one, card), 1000);
  ModelOptions options = kOptions;
  options.kv_blocks = 1000;
  auto device = CudaDevice::Create(kBounds, NewSimulatedRuntime({.memory_bytes = card}));
  ASSERT_TRUE(device.ok()) << device.status();
  const auto model = Model::Load(*checkpoint_, config_, options, **device, experts_);
  EXPECT_TRUE(model.ok()) << model.status();
}

TEST_P(CudaMemoryTest, ACardThatIsTooSmallIsRejectedAtTheStart) {
  const DeviceMemory planned = Measure();
  auto device =
      CudaDevice::Create(kBounds, NewSimulatedRuntime({.memory_bytes = planned.weights + planned.kv_cache}));
  const absl::Status status = device.ok() ? Load(**device).status() : device.status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// The caller logs UNAVAILABLE and lets the workers compute the experts, so nothing else may be returned.
TEST(CudaFetchTest, WithoutSharedMemoryTheWorkersComputeTheExperts) {
  const std::string dir = "tests/golden/data/kimi-k2-thinking-int4";
  const std::unique_ptr<Checkpoint> checkpoint = *Checkpoint::Open(dir);
  const ModelConfig config = *ReadModelConfig(dir);
  ZeroExperts experts;
  auto device = CudaDevice::Create(kBounds, NewSimulatedRuntime());
  ASSERT_TRUE(device.ok()) << device.status();
  const auto spec = SlotSpecOf(*checkpoint, config, /*slots=*/0, /*window=*/2);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE((*device)->ReserveExperts(*spec).ok());
  const auto model = Model::Load(*checkpoint, config, kOptions, **device, experts);
  ASSERT_TRUE(model.ok()) << model.status();
  const absl::Status fetching = (*device)->FetchExperts(1);
  EXPECT_TRUE(absl::IsUnavailable(fetching)) << fetching;
  const std::vector<TokenId> prompt(20, 3);
  const std::vector<KvBlockId> blocks = {4, 0};
  EXPECT_TRUE((*model)->Forward({.sequences = {{.tokens = prompt, .position = 0, .blocks = blocks}}}).ok());
}

INSTANTIATE_TEST_SUITE_P(All, CudaMemoryTest,
                         ::testing::Values(Case{"kimi-k2-fp8", 0}, Case{"kimi-k2-thinking-int4", 3},
                                           Case{"qwen3-moe-bf16", 2}),
                         [](const auto& param_info) { return "case" + std::to_string(param_info.index); });

TEST(AllocationTest, LargeOnesArePagesAndSmallOnesShareThem) {
  EXPECT_EQ(AllocatedBytes(0), 0u);
  EXPECT_EQ(AllocatedBytes(1), 512u);
  EXPECT_EQ(AllocatedBytes(1024), 1024u);
  EXPECT_EQ(AllocatedBytes(kAllocationPage / 2), kAllocationPage);
  EXPECT_EQ(AllocatedBytes(kAllocationPage), kAllocationPage);
  EXPECT_EQ(AllocatedBytes(kAllocationPage + 1), 2 * kAllocationPage);
}

}  // namespace
}  // namespace numoe::execution::cuda
