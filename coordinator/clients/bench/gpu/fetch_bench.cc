// Measures layers whose experts are fetched from shared host memory while the layer before is computed, and
// compares them with the slower of the two alone: the bytes over PCIe, and the products.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/topology/node_memory.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/execution/device/cuda/expert_windows.h"
#include "coordinator/execution/transport/direct_experts.h"
#include "expert_worker/tools/synthetic_checkpoint.h"

namespace numoe::clients {
namespace {

// One worker's weights with random values: the experts of every layer as raw INT4.
class SharedWeights final : public execution::DirectExperts {
 public:
  static absl::StatusOr<std::unique_ptr<SharedWeights>> Create(const FetchSizes& sizes) {
    NUMOE_CHECK(sizes.layers > 0 && 0 < sizes.experts_per_token && sizes.experts_per_token <= sizes.experts);
    auto weights = std::make_unique<SharedWeights>();
    const size_t up = PackedBytes(WeightFormat::kRawInt4, sizes.width, sizes.hidden);
    const size_t expert = 2 * up + PackedBytes(WeightFormat::kRawInt4, sizes.hidden, sizes.width);
    const size_t layer_bytes = (expert * static_cast<size_t>(sizes.experts) + kMappedLayerAlignment - 1) /
                               kMappedLayerAlignment * kMappedLayerAlignment;
    const size_t bytes = layer_bytes * static_cast<size_t>(sizes.layers);
    ASSIGN_OR_RETURN(weights->memory_, NodeMemory::Allocate(bytes, {.shared = true}));
    std::mt19937 random(3);
    std::vector<uint32_t> drawn(layer_bytes / static_cast<size_t>(sizes.experts) / sizeof(uint32_t));
    for (uint32_t& word : drawn)
      word = (random() & 0x80ff80ffu) | 0x3c003c00u;  // small and finite if read as BF16
    const size_t piece = drawn.size() * sizeof(uint32_t);
    NUMOE_CHECK_GT(piece, size_t{0});
    for (size_t at = 0; at < bytes; at += piece)
      std::memcpy(weights->memory_.data() + at, drawn.data(), std::min(piece, bytes - at));
    MappedWeights directory{.bytes = bytes, .width = sizes.width};
    for (LayerId layer = 0; layer < sizes.layers; ++layer) {
      directory.layers.push_back({.layer = layer,
                                  .offset = layer_bytes * static_cast<size_t>(layer),
                                  .expert_bytes = expert,
                                  .up_format = "raw_int4",
                                  .down_format = "raw_int4"});
    }
    RETURN_IF_ERROR(weights->memory_.SealContent());
    FileDescriptor fd(dup(weights->memory_.fd()));
    ASSIGN_OR_RETURN(weights->mapped_, execution::ExpertMemory::Map(std::move(fd), std::move(directory),
                                                                    {.num_experts = sizes.experts}));
    weights->layer_bytes_ = static_cast<double>(expert) * sizes.experts;
    return weights;
  }

  double layer_bytes() const { return layer_bytes_; }
  std::vector<std::shared_ptr<execution::ExpertMemory>> MappedExperts() override { return {mapped_}; }
  absl::StatusOr<execution::DirectStep> BeginDirect(std::atomic<uint32_t>*) override {
    return absl::UnimplementedError("this worker only has weights, and computes nothing");
  }
  absl::Status EndDirect(int, int, const absl::Status& result) override { return result; }

 private:
  NodeMemory memory_;
  std::shared_ptr<execution::ExpertMemory> mapped_;
  double layer_bytes_ = 0;
};

absl::StatusOr<execution::ExpertSlotSpec> SpecOf(const worker::SyntheticCheckpoint& checkpoint,
                                                 const FetchSizes& sizes) {
  execution::ExpertSlotSpec spec{.layer_is_moe = std::vector<bool>(static_cast<size_t>(sizes.layers), true),
                                 .experts = sizes.experts,
                                 .experts_per_token = sizes.experts_per_token,
                                 .window = sizes.experts};
  const auto find = [&](const char* part, int rows, int cols) {
    return checkpoint.FindMatrix(std::string("0") + part, rows, cols, checkpoint.config());
  };
  ASSIGN_OR_RETURN(spec.example.gate, find("gate", sizes.width, sizes.hidden));
  ASSIGN_OR_RETURN(spec.example.up, find("up", sizes.width, sizes.hidden));
  ASSIGN_OR_RETURN(spec.example.down, find("down", sizes.hidden, sizes.width));
  return spec;
}

std::vector<int32_t> RandomRoutes(const FetchSizes& sizes, int tokens) {
  std::mt19937 random(static_cast<uint32_t>(tokens));
  std::vector<int32_t> all(static_cast<size_t>(sizes.experts)), chosen;
  for (int e = 0; e < sizes.experts; ++e) all[static_cast<size_t>(e)] = e;
  for (int t = 0; t < tokens; ++t)
    std::sample(all.begin(), all.end(), std::back_inserter(chosen), sizes.experts_per_token, random);
  NUMOE_CHECK_EQ(chosen.size(), static_cast<size_t>(tokens) * static_cast<size_t>(sizes.experts_per_token));
  return chosen;
}

absl::Status BenchTokens(BenchContext& context, const FetchSizes& sizes,
                         const execution::ExpertSlotSpec& spec, SharedWeights& weights,
                         execution::cuda::ExpertWindows& windows, int tokens) {
  execution::cuda::Runtime& runtime = context.runtime();
  ASSIGN_OR_RETURN(const auto products,
                   execution::cuda::ExpertProducts::Create(spec, tokens, runtime, context.stream()));
  const size_t values = static_cast<size_t>(tokens) * static_cast<size_t>(sizes.hidden);
  ASSIGN_OR_RETURN(const auto hidden, context.Random(values * sizeof(execution::cuda::Bf16)));
  ASSIGN_OR_RETURN(const auto residual, context.Zeros(values * sizeof(float)));
  ASSIGN_OR_RETURN(const auto routes, context.Upload(RandomRoutes(sizes, tokens)));
  ASSIGN_OR_RETURN(const auto shares,
                   context.Upload(std::vector<float>(
                       static_cast<size_t>(tokens) * static_cast<size_t>(sizes.experts_per_token), 0.125f)));
  const auto call_of = [&](LayerId layer) {
    return execution::cuda::ExpertsCall{.layer = layer,
                                        .rows = tokens,
                                        .hidden = As<execution::cuda::Bf16>(hidden),
                                        .experts = As<int32_t>(routes),
                                        .weights = As<float>(shares)};
  };
  // Runs two steps and measures the second, because the first also pins the memory.
  double seconds = 0;
  for (int step = 0; step < 2; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    if (!windows.BeginStep(weights, [](LayerId, ExpertId) { return false; }))
      return absl::InternalError("the experts cannot be fetched");
    for (LayerId layer = 0; layer < sizes.layers; ++layer)
      windows.EnqueueLayer(call_of(layer), *products, As<float>(residual));
    RETURN_IF_ERROR(runtime.Synchronize(context.stream()));
    windows.EndStep();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / sizes.layers;
  }
  ASSIGN_OR_RETURN(const auto slots, context.Random(execution::cuda::SlotOf(spec).bytes() *
                                                    static_cast<size_t>(sizes.experts)));
  std::vector<int32_t> identity(static_cast<size_t>(sizes.experts));
  for (int e = 0; e < sizes.experts; ++e) identity[static_cast<size_t>(e)] = e;
  ASSIGN_OR_RETURN(const auto table, context.Upload(identity));
  const execution::cuda::SlotSet set{.slot = execution::cuda::SlotOf(spec),
                                     .slots = sizes.experts,
                                     .data = slots->device(),
                                     .table = As<int32_t>(table)};
  ASSIGN_OR_RETURN(const double compute, context.Seconds([&](int) {
    products->EnqueueSort(call_of(0), set);
    products->EnqueueProducts(call_of(0), set);
    products->EnqueueCombine(call_of(0), set, As<float>(residual));
  }));
  const double bus = weights.layer_bytes() / 1e9 / context.limits().to_device_gb_per_s;
  context.Report({{"op", "fetched_layer"},
                  {"format", "raw_int4"},
                  {"tokens", tokens},
                  {"experts", sizes.experts},
                  {"experts_per_token", sizes.experts_per_token},
                  {"layers", sizes.layers},
                  {"compute_us", compute * 1e6},
                  {"bus_us", bus * 1e6},
                  {"of_the_slower", seconds / std::max(compute, bus)}},
                 seconds, 0,
                 2.0 * 3 * tokens * sizes.experts_per_token * double{1} * sizes.hidden * sizes.width);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchFetch(BenchContext& context, const FetchSizes& sizes) {
  const worker::SyntheticCheckpoint checkpoint({.hidden_size = sizes.hidden,
                                                .intermediate_size = sizes.width,
                                                .experts = 1,
                                                .experts_per_token = sizes.experts_per_token});
  ASSIGN_OR_RETURN(const execution::ExpertSlotSpec spec, SpecOf(checkpoint, sizes));
  ASSIGN_OR_RETURN(const auto weights, SharedWeights::Create(sizes));
  ASSIGN_OR_RETURN(const auto windows,
                   execution::cuda::ExpertWindows::Create(spec, context.runtime(), context.stream()));
  for (const int tokens : sizes.tokens)
    RETURN_IF_ERROR(BenchTokens(context, sizes, spec, *weights, *windows, tokens));
  return absl::OkStatus();
}

}  // namespace numoe::clients
