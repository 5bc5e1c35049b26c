// Measures hot INT4 experts on the device: the experts' bytes limit few tokens over many slots, and the
// tensor cores limit many rows per expert.
#include <algorithm>
#include <random>
#include <set>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/execution/device/cuda/cuda_experts.h"
#include "expert_worker/tools/synthetic_checkpoint.h"

namespace numoe::clients {
namespace {

absl::StatusOr<execution::ExpertMatrices> ExpertOf(const worker::SyntheticCheckpoint& checkpoint,
                                                   int expert) {
  const ModelConfig& config = checkpoint.config();
  const auto find = [&](const char* part, int rows, int cols) {
    return checkpoint.FindMatrix(std::to_string(expert) + part, rows, cols, config);
  };
  execution::ExpertMatrices matrices;
  ASSIGN_OR_RETURN(matrices.gate, find("gate", config.moe_intermediate_size, config.hidden_size));
  ASSIGN_OR_RETURN(matrices.up, find("up", config.moe_intermediate_size, config.hidden_size));
  ASSIGN_OR_RETURN(matrices.down, find("down", config.hidden_size, config.moe_intermediate_size));
  return matrices;
}

/// One layer with an expert in every slot, and inputs for it.
struct BenchExpertLayer {
  std::unique_ptr<execution::cuda::CudaExperts> experts;
  std::unique_ptr<execution::cuda::ExpertProducts> products;
  std::unique_ptr<execution::cuda::Memory> hidden, weights, residual;
  double expert_bytes = 0;
};

absl::StatusOr<BenchExpertLayer> MakeLayer(BenchContext& context, const ExpertBenchSizes& sizes, int slots,
                                           int rows_max) {
  NUMOE_CHECK(rows_max > 0 && sizes.experts_per_token <= slots) << slots << " slots";
  const worker::SyntheticCheckpoint checkpoint({.hidden_size = sizes.hidden,
                                                .intermediate_size = sizes.width,
                                                .experts = slots,
                                                .experts_per_token = sizes.experts_per_token});
  execution::ExpertSlotSpec spec{
      .layer_is_moe = {true}, .experts = slots, .experts_per_token = sizes.experts_per_token, .slots = slots};
  ASSIGN_OR_RETURN(spec.example, ExpertOf(checkpoint, 0));
  BenchExpertLayer layer;
  ASSIGN_OR_RETURN(layer.experts,
                   execution::cuda::CudaExperts::Create(spec, context.runtime(), context.stream()));
  ASSIGN_OR_RETURN(layer.products, execution::cuda::ExpertProducts::Create(spec, rows_max, context.runtime(),
                                                                           context.stream()));
  for (int slot = 0; slot < slots; ++slot) {
    ASSIGN_OR_RETURN(const execution::ExpertMatrices matrices, ExpertOf(checkpoint, slot));
    RETURN_IF_ERROR(layer.experts->Fill(0, slot, matrices));
    layer.experts->Assign(0, slot, slot);
  }
  layer.experts->BeginStep();
  const auto hidden = static_cast<size_t>(rows_max) * static_cast<size_t>(sizes.hidden);
  ASSIGN_OR_RETURN(layer.hidden, context.Random(hidden * sizeof(execution::cuda::Bf16)));
  ASSIGN_OR_RETURN(layer.residual, context.Zeros(hidden * sizeof(float)));
  ASSIGN_OR_RETURN(
      layer.weights,
      context.Upload(std::vector<float>(
          static_cast<size_t>(rows_max) * static_cast<size_t>(sizes.experts_per_token), 0.125f)));
  layer.expert_bytes = static_cast<double>(execution::cuda::SlotBytes(spec)) / slots;
  return layer;
}

absl::Status BenchRows(BenchContext& context, const ExpertBenchSizes& sizes, BenchExpertLayer& layer,
                       int slots, int rows, const char* op) {
  // Every repetition uses other experts, so that no cache of the card contains them.
  const int k = sizes.experts_per_token;
  std::mt19937 random(static_cast<uint32_t>(rows));
  std::vector<std::unique_ptr<execution::cuda::Memory>> routes;
  double distinct = 0;
  for (int n = 0; n < 8; ++n) {
    std::vector<int32_t> chosen, all(static_cast<size_t>(slots));
    for (int i = 0; i < slots; ++i) all[static_cast<size_t>(i)] = i;
    for (int row = 0; row < rows; ++row) {
      std::shuffle(all.begin(), all.end(), random);
      chosen.insert(chosen.end(), all.begin(), all.begin() + k);
    }
    distinct += static_cast<double>(std::set<int32_t>(chosen.begin(), chosen.end()).size()) / 8;
    ASSIGN_OR_RETURN(routes.emplace_back(), context.Upload(chosen));
  }
  NUMOE_CHECK(k <= distinct && distinct <= slots) << distinct << " experts of " << slots;
  const auto call_of = [&](int n) {
    return execution::cuda::ExpertsCall{
        .rows = rows,
        .hidden = As<execution::cuda::Bf16>(layer.hidden),
        .experts = As<int32_t>(routes[static_cast<size_t>(n) % routes.size()]),
        .weights = As<float>(layer.weights)};
  };
  execution::cuda::ExpertProducts& experts = *layer.products;
  const execution::cuda::SlotSet set = layer.experts->Slots(0);
  const auto sort = [&](int n) {
    layer.experts->EnqueueCount(call_of(n));
    experts.EnqueueSort(call_of(n), set);
  };
  ASSIGN_OR_RETURN(const double products,
                   context.Seconds([&](int n) { experts.EnqueueProducts(call_of(n), set); }, sort));
  ASSIGN_OR_RETURN(const double whole, context.Seconds([&](int n) {
    sort(n);
    experts.EnqueueProducts(call_of(n), set);
    experts.EnqueueCombine(call_of(n), set, As<float>(layer.residual));
  }));
  context.Report({{"op", op},
                  {"format", "raw_int4"},
                  {"tokens", rows},
                  {"slots", slots},
                  {"experts_per_token", k},
                  {"with_sort_and_combine_us", whole * 1e6}},
                 products, distinct * layer.expert_bytes,
                 2.0 * 3 * rows * k * double{1} * sizes.hidden * sizes.width);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchExperts(BenchContext& context, const ExpertBenchSizes& sizes) {
  NUMOE_CHECK(!sizes.tokens.empty() && !sizes.rows.empty());
  const int tokens_max = *std::max_element(sizes.tokens.begin(), sizes.tokens.end());
  ASSIGN_OR_RETURN(BenchExpertLayer few, MakeLayer(context, sizes, sizes.slots, tokens_max));
  for (const int tokens : sizes.tokens)
    RETURN_IF_ERROR(BenchRows(context, sizes, few, sizes.slots, tokens, "experts_few_tokens"));
  // Every token selects every expert, so that each expert computes all rows.
  const int slots = sizes.experts_per_token;
  const int rows_max = *std::max_element(sizes.rows.begin(), sizes.rows.end());
  ASSIGN_OR_RETURN(BenchExpertLayer many, MakeLayer(context, sizes, slots, rows_max));
  for (const int rows : sizes.rows)
    RETURN_IF_ERROR(BenchRows(context, sizes, many, slots, rows, "experts_many_rows"));
  return absl::OkStatus();
}

}  // namespace numoe::clients
