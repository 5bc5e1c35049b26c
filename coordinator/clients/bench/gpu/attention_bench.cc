// Measures MLA attention alone: the kernels that the device launches once per layer, without the matrix
// products.
#include <algorithm>
#include <numeric>
#include <random>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"

namespace numoe::clients {
namespace {

size_t Values(int64_t rows, int64_t width) {
  return static_cast<size_t>(rows * width) * sizeof(execution::cuda::Bf16);
}

/// Caches of some layers with `batch` sequences, whose blocks are in random order.
struct BenchCache {
  std::vector<execution::cuda::CacheLayer> layers;
  std::vector<std::unique_ptr<execution::cuda::Memory>> memory;
  std::unique_ptr<execution::cuda::Memory> positions, sequences, block_tables;
  int blocks_per_sequence = 0;

  execution::cuda::StepTables tables() const {
    return {.positions = As<int32_t>(positions),
            .sequences = As<int32_t>(sequences),
            .block_tables = As<int32_t>(block_tables),
            .blocks_per_sequence_max = blocks_per_sequence};
  }
};

absl::StatusOr<BenchCache> MakeCache(BenchContext& context, const AttentionSizes& sizes,
                                     const DecodePoint& point, bool fp8) {
  NUMOE_CHECK(sizes.layers > 0 && point.batch > 0 && point.context > 0);
  BenchCache cache;
  cache.blocks_per_sequence =
      (point.context + execution::cuda::kCacheBlockTokens - 1) / execution::cuda::kCacheBlockTokens;
  const int blocks = cache.blocks_per_sequence * point.batch;
  const execution::cuda::CacheForm form =
      execution::cuda::MakeCacheForm(fp8, sizes.widths.latent + sizes.widths.rope, sizes.widths.rope);
  for (int l = 0; l < sizes.layers; ++l) {
    execution::cuda::CacheLayer layer{.blocks = blocks, .heads = 1, .keys = form};
    ASSIGN_OR_RETURN(cache.memory.emplace_back(),
                     context.Random(static_cast<size_t>(execution::cuda::CacheLayerBytes(layer))));
    layer.base = cache.memory.back()->device();
    cache.layers.push_back(layer);
  }
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  std::vector<int32_t> sequences(static_cast<size_t>(point.batch));
  std::iota(sequences.begin(), sequences.end(), 0);
  const std::vector<int32_t> positions(sequences.size(), point.context - 1);
  ASSIGN_OR_RETURN(cache.block_tables, context.Upload(table));
  ASSIGN_OR_RETURN(cache.sequences, context.Upload(sequences));
  ASSIGN_OR_RETURN(cache.positions, context.Upload(positions));
  return cache;
}

absl::Status BenchDecode(BenchContext& context, const AttentionSizes& sizes, const DecodePoint& point,
                         bool fp8) {
  const execution::cuda::DeviceFacts& facts = context.runtime().facts();
  const execution::cuda::LatentKernelShape kernel =
      execution::cuda::PlanLatentKernel(sizes.widths, fp8, facts.shared_bytes_max);
  if (kernel.heads == 0) return absl::InvalidArgumentError("no decode kernel for these widths");
  const int groups = (sizes.heads + kernel.heads - 1) / kernel.heads;
  const execution::cuda::DecodeShape shape =
      execution::cuda::PlanDecode({.rows = point.batch,
                                   .context_max = point.context,
                                   .groups = groups,
                                   .workers_per_group = std::max(1, facts.multiprocessors / groups),
                                   .tile = kernel.keys});
  ASSIGN_OR_RETURN(const BenchCache cache, MakeCache(context, sizes, point, fp8));
  const int width = sizes.widths.latent + sizes.widths.rope;
  ASSIGN_OR_RETURN(const auto query, context.Random(Values(int64_t{point.batch} * sizes.heads, width)));
  ASSIGN_OR_RETURN(const auto out,
                   context.Zeros(Values(int64_t{point.batch} * sizes.heads, sizes.widths.latent)));
  ASSIGN_OR_RETURN(const auto list_memory,
                   context.Zeros(static_cast<size_t>(execution::cuda::DecodeListBytes(shape))));
  ASSIGN_OR_RETURN(const auto part_memory,
                   context.Zeros(std::max<size_t>(static_cast<size_t>(execution::cuda::DecodePartBytes(
                                                      shape, sizes.heads, sizes.widths.latent)),
                                                  sizeof(float))));
  const execution::cuda::DecodeLists lists = execution::cuda::PlaceLists(shape, list_memory->device());
  const execution::cuda::DecodeParts parts =
      execution::cuda::PlaceParts(shape, sizes.heads, sizes.widths.latent, part_memory->device());
  execution::cuda::LaunchPlanPieces(
      {.shape = shape, .lists = lists, .positions = As<int32_t>(cache.positions)}, context.stream());
  ASSIGN_OR_RETURN(const double seconds, context.GraphSeconds(sizes.layers, [&](int layer) {
    execution::cuda::LaunchLatentDecode({.kernel = kernel,
                                         .cache = cache.layers[static_cast<size_t>(layer)],
                                         .tables = cache.tables(),
                                         .shape = shape,
                                         .lists = lists,
                                         .parts = parts,
                                         .heads = sizes.heads,
                                         .scale = 0.1f,
                                         .query = As<execution::cuda::Bf16>(query),
                                         .out = As<execution::cuda::Bf16>(out)},
                                        context.stream());
    execution::cuda::LaunchMergeParts({.shape = shape,
                                       .lists = lists,
                                       .parts = parts,
                                       .heads = sizes.heads,
                                       .width = sizes.widths.latent,
                                       .out = As<execution::cuda::Bf16>(out)},
                                      context.stream());
  }));
  const double tokens = static_cast<double>(point.batch) * point.context;
  const double bytes = tokens * cache.layers[0].keys.block_bytes / execution::cuda::kCacheBlockTokens;
  const double flops = 2.0 * tokens * sizes.heads * (width + sizes.widths.latent);
  context.Report({{"op", "mla_decode"},
                  {"heads", sizes.heads},
                  {"batch", point.batch},
                  {"context", point.context},
                  {"cache", fp8 ? "fp8" : "bf16"}},
                 seconds, bytes, flops);
  return absl::OkStatus();
}

// Measures passes over expanded keys, in the pieces into which the device divides a prompt, without the
// expansion.
absl::Status BenchPrefill(BenchContext& context, const AttentionSizes& sizes) {
  if (!execution::cuda::HasExpandedPrefill(sizes.nope, sizes.widths.rope, sizes.value))
    return absl::InvalidArgumentError("no prefill kernel for these widths");
  const int tokens = sizes.prefill_tokens, heads = sizes.heads, rope = sizes.widths.rope;
  const int64_t row_heads = int64_t{tokens} * heads;
  const std::vector<execution::cuda::PrefillPass> passes =
      execution::cuda::PlanPrefill({{.rows = tokens}}, sizes.expanded_rows);
  ASSIGN_OR_RETURN(const auto query, context.Random(Values(row_heads, sizes.nope + rope)));
  ASSIGN_OR_RETURN(const auto keys, context.Random(Values(int64_t{sizes.expanded_rows} * heads, sizes.nope)));
  ASSIGN_OR_RETURN(const auto ropes, context.Random(Values(sizes.expanded_rows, rope)));
  ASSIGN_OR_RETURN(const auto values,
                   context.Random(Values(int64_t{sizes.expanded_rows} * heads, sizes.value)));
  ASSIGN_OR_RETURN(const auto out, context.Zeros(Values(row_heads, sizes.value)));
  ASSIGN_OR_RETURN(const auto sums, context.Zeros(Values(row_heads, sizes.value) * 2));
  ASSIGN_OR_RETURN(const auto maxima, context.Zeros(static_cast<size_t>(row_heads) * sizeof(float)));
  ASSIGN_OR_RETURN(const auto totals, context.Zeros(static_cast<size_t>(row_heads) * sizeof(float)));
  NUMOE_CHECK(!passes.empty()) << tokens << " tokens";
  std::vector<std::unique_ptr<execution::cuda::Memory>> tasks;
  for (const execution::cuda::PrefillPass& pass : passes) {
    ASSIGN_OR_RETURN(tasks.emplace_back(), context.Upload(pass.tasks));
  }
  ASSIGN_OR_RETURN(const double seconds, context.Seconds([&](int) {
    for (size_t p = 0; p < passes.size(); ++p) {
      execution::cuda::LaunchExpandedPrefill(
          {.common = {.tasks = As<execution::cuda::PrefillTask>(tasks[p]),
                      .task_count = static_cast<int>(passes[p].tasks.size()),
                      .heads = heads,
                      .key_width = sizes.nope + rope,
                      .value_width = sizes.value,
                      .scale = 0.1f,
                      .query = As<execution::cuda::Bf16>(query),
                      .out = As<execution::cuda::Bf16>(out),
                      .state = {As<float>(sums), As<float>(maxima), As<float>(totals)}},
           .keys = As<execution::cuda::Bf16>(keys),
           .key_stride = int64_t{heads} * sizes.nope,
           .key_head_stride = sizes.nope,
           .ropes = As<execution::cuda::Bf16>(ropes),
           .rope_stride = rope,
           .rope_width = rope,
           .values = As<execution::cuda::Bf16>(values),
           .value_stride = int64_t{heads} * sizes.value,
           .value_head_stride = sizes.value},
          context.stream());
    }
  }));
  const double pairs = 0.5 * tokens * (tokens + 1.0);  // of a token and a position that it attends to
  context.Report({{"op", "mla_prefill"}, {"heads", heads}, {"tokens", tokens}}, seconds, 0,
                 2.0 * pairs * heads * (sizes.nope + rope + sizes.value));
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchAttention(BenchContext& context, const AttentionSizes& sizes) {
  for (const bool fp8 : {false, true}) {
    for (const DecodePoint& point : sizes.decode) RETURN_IF_ERROR(BenchDecode(context, sizes, point, fp8));
  }
  return BenchPrefill(context, sizes);
}

}  // namespace numoe::clients
