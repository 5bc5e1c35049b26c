#include "coordinator/execution/device/cuda/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/copy_windows.h"

namespace numoe::execution::cuda {
namespace {

// Runs of at least this many rows use the prefill kernel: reading keys once for 128 rows of a head is then
// faster than reading them once for each row.
constexpr int kPagedPrefillRowsMin = 8;

}  // namespace

absl::StatusOr<AttendKernels> ChooseAttention(const CacheShape& cache, CacheType type,
                                              const DeviceFacts& facts) {
  const CacheRow& row = cache.row;
  const bool fp8 = type == CacheType::kFp8;
  AttendKernels kernels;
  if (row.value_width == 0) {
    const LatentWidths widths{row.key_width - row.plain_width, row.plain_width};
    kernels.latent = PlanLatentKernel(widths, fp8, facts.shared_bytes_max);
    if (kernels.latent.heads > 0) return kernels;
  } else if (row.key_width == row.value_width) {
    kernels.grouped_blocks = GroupedBlocksPerMultiprocessor(row.key_width, fp8, facts.shared_bytes_max);
    if (kernels.grouped_blocks > 0) return kernels;
  }
  return absl::InvalidArgumentError(fmt::format(
      "there is no attention kernel for keys of {} and values of {} channels on {}; use --device=cpu",
      row.key_width, row.value_width, facts.name));
}

bool Prefills(const CudaStore& store, const PrefillRun& run) {
  const LatentRunShape& mla = store.mla();
  if (store.latent()) return HasExpandedPrefill(mla.nope, mla.rope, mla.value) && ExpandsLatents(run, mla);
  return run.rows >= kPagedPrefillRowsMin && HasPagedPrefill(store.attended().row.key_width);
}

DecodeShape CudaAttention::ShapeOf(int rows) const {
  DecodeBounds bounds = store_.AttendBounds(rows, frame_.bucket.blocks_per_sequence, frame_.bucket.exact);
  const int heads = store_.attended().query_heads, cache_heads = store_.attended().row.heads;
  const int multiprocessors = store_.facts().multiprocessors;
  if (store_.latent()) {
    bounds.tile = kernels_.latent.keys;
    bounds.groups = (heads + kernels_.latent.heads - 1) / kernels_.latent.heads;
    bounds.workers_per_group = std::max(1, multiprocessors / bounds.groups);
  } else {
    const int sharing = heads / cache_heads;
    bounds.tile = kGroupedTileKeys;
    bounds.groups = cache_heads * ((sharing + kGroupedHeadsMax - 1) / kGroupedHeadsMax);
    bounds.workers_per_group = std::max(1, multiprocessors * kernels_.grouped_blocks / bounds.groups);
  }
  return PlanDecode(bounds);
}

void CudaAttention::PlanPieces(const DecodeShape& shape, int first) const {
  LaunchPlanPieces({.shape = shape,
                    .lists = PlaceLists(shape, store_.attend_scratch().lists->device()),
                    .positions = memory_.buffers.decode_positions(first)},
                   memory_.stream);
}

void CudaAttention::PlanStep() const {
  if (PlansOnce()) PlanPieces(ShapeOf(frame_.bucket.rows), 0);
}

void CudaAttention::ForStretches(Rows rows,
                                 absl::FunctionRef<void(const DecodeShape& shape, int first)> decode) const {
  if (frame_.part(rows).decode_rows == 0) return;
  const int rows_max = store_.AttendRows(frame_.bucket.exact);
  for (int first = 0; first < rows.count; first += rows_max) {
    const DecodeShape shape = ShapeOf(std::min(rows_max, rows.count - first));
    if (!PlansOnce()) PlanPieces(shape, rows.first + first);
    decode(shape, first);
  }
}

PrefillArgs CudaAttention::PrefillArgsOf(Rows rows, size_t pass, Tensor query, Tensor out, int key_width,
                                         int value_width, float scale) const {
  return {.tasks = memory_.buffers.tasks(pass),
          .task_count = static_cast<int>(frame_.passes[pass].tasks.size()),
          .heads = store_.attended().query_heads,
          .key_width = key_width,
          .value_width = value_width,
          .scale = scale,
          .query = memory_.Data<const Bf16>(rows.first, query),
          .out = memory_.Data<Bf16>(rows.first, out)};
}

// --- grouped-query attention ------------------------------------------------------------------------------

void CudaAttention::Attend(Rows rows, const AttendArgs& args) const {
  NUMOE_CHECK(!args.value_in_key && args.heads == store_.attended().query_heads);
  ForStretches(rows, [&](const DecodeShape& shape, int first) { DecodeGrouped(rows, args, shape, first); });
  const PartRows& part = frame_.part(rows);
  for (size_t pass = part.pass_begin; pass < part.pass_end; ++pass) {
    LaunchPagedPrefill({.common = PrefillArgsOf(rows, pass, args.query, args.out, args.key_width,
                                                args.value_width, args.scale),
                        .cache = store_.cache_layer(args.cache),
                        .tables = memory_.Tables(rows)},
                       memory_.stream);
  }
}

void CudaAttention::DecodeGrouped(Rows rows, const AttendArgs& args, const DecodeShape& shape,
                                  int first) const {
  StepTables tables = memory_.Tables(rows);
  tables.sequences += first;
  const CudaStore::AttendScratch& scratch = store_.attend_scratch();
  const DecodeLists lists = PlaceLists(shape, scratch.lists->device());
  const DecodeParts parts = PlaceParts(shape, args.heads, args.value_width, scratch.parts->device());
  Bf16* out = memory_.Data<Bf16>(rows.first + first, args.out);
  LaunchGroupedDecode({.cache = store_.cache_layer(args.cache),
                       .tables = tables,
                       .shape = shape,
                       .lists = lists,
                       .parts = parts,
                       .heads = args.heads,
                       .scale = args.scale,
                       .query = memory_.Data<const Bf16>(rows.first + first, args.query),
                       .out = out},
                      memory_.stream);
  LaunchMergeParts({.shape = shape,
                    .lists = lists,
                    .parts = parts,
                    .heads = args.heads,
                    .width = args.value_width,
                    .out = out},
                   memory_.stream);
}

// --- latent attention -------------------------------------------------------------------------------------

void CudaAttention::AttendLatent(Rows rows, const LatentAttendArgs& args) const {
  const LatentRunShape& mla = store_.mla();
  NUMOE_CHECK(args.key_up.heads == store_.attended().query_heads && args.key_up.cols == mla.latent);
  if (frame_.part(rows).decode_rows > 0) {
    Absorb(rows, args);
    ForStretches(rows, [&](const DecodeShape& shape, int first) { DecodeLatent(rows, args, shape, first); });
    const HeadView context{args.context, args.key_up.heads, mla.latent, 0};
    const HeadView out{args.out, args.key_up.heads, mla.value, 0};
    products_.MultiplyHeads(store_.heads(args.value_up), memory_.View<const Bf16>(rows, context),
                            memory_.View<Bf16>(rows, out), rows.count);
  }
  PrefillLatent(rows, args);
}

// Computes absorbed = [W_UK^T q_nope, q_rope] for each head.
void CudaAttention::Absorb(Rows rows, const LatentAttendArgs& args) const {
  const LatentRunShape& mla = store_.mla();
  const int heads = args.key_up.heads, width = mla.latent + mla.rope;
  const HeadView query{args.query, heads, mla.nope + mla.rope, 0};
  const HeadView absorbed{args.absorbed, heads, width, 0};
  products_.MultiplyHeads(store_.heads(args.key_absorbed), memory_.View<const Bf16>(rows, query),
                          memory_.View<Bf16>(rows, absorbed), rows.count);
  LaunchCopyWindows({.in = memory_.View<const Bf16>(rows, {args.query, heads, query.stride, mla.nope}),
                     .out = memory_.View<Bf16>(rows, {args.absorbed, heads, width, mla.latent}),
                     .rows = rows.count,
                     .width = mla.rope},
                    memory_.stream);
}

void CudaAttention::DecodeLatent(Rows rows, const LatentAttendArgs& args, const DecodeShape& shape,
                                 int first) const {
  const int heads = store_.attended().query_heads, latent = store_.mla().latent;
  StepTables tables = memory_.Tables(rows);
  tables.sequences += first;
  const CudaStore::AttendScratch& scratch = store_.attend_scratch();
  const DecodeLists lists = PlaceLists(shape, scratch.lists->device());
  const DecodeParts parts = PlaceParts(shape, heads, latent, scratch.parts->device());
  Bf16* out = memory_.Data<Bf16>(rows.first + first, args.context);
  LaunchLatentDecode({.kernel = kernels_.latent,
                      .cache = store_.cache_layer(args.cache),
                      .tables = tables,
                      .shape = shape,
                      .lists = lists,
                      .parts = parts,
                      .heads = heads,
                      .scale = args.scale,
                      .query = memory_.Data<const Bf16>(rows.first + first, args.absorbed),
                      .out = out},
                     memory_.stream);
  LaunchMergeParts(
      {.shape = shape, .lists = lists, .parts = parts, .heads = heads, .width = latent, .out = out},
      memory_.stream);
}

void CudaAttention::PrefillLatent(Rows rows, const LatentAttendArgs& args) const {
  const LatentRunShape& mla = store_.mla();
  const CudaStore::AttendScratch& scratch = store_.attend_scratch();
  const int heads = store_.attended().query_heads;
  const auto bf16 = [](const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<const Bf16*>(memory->device());
  };
  const auto fp32 = [](const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<float*>(memory->device());
  };
  const PartRows& part = frame_.part(rows);
  for (size_t pass = part.pass_begin; pass < part.pass_end; ++pass) {
    for (const PrefillStretch& stretch : frame_.passes[pass].stretches) ExpandStretch(rows, args, stretch);
    ExpandedPrefillArgs launch{
        .common = PrefillArgsOf(rows, pass, args.query, args.out, mla.nope + mla.rope, mla.value, args.scale),
        .keys = bf16(scratch.expanded_keys),
        .key_stride = int64_t{heads} * mla.nope,
        .key_head_stride = mla.nope,
        .ropes = bf16(scratch.gathered) + mla.latent,
        .rope_stride = mla.latent + mla.rope,
        .rope_width = mla.rope,
        .values = bf16(scratch.expanded_values),
        .value_stride = int64_t{heads} * mla.value,
        .value_head_stride = mla.value};
    launch.common.state = {fp32(scratch.prefill_sums), fp32(scratch.prefill_maxima),
                           fp32(scratch.prefill_totals)};
    LaunchExpandedPrefill(launch, memory_.stream);
  }
}

// Computes the keys and values of all heads for a stretch of the cache: K = W_UK c, V = W_UV c.
void CudaAttention::ExpandStretch(Rows rows, const LatentAttendArgs& args,
                                  const PrefillStretch& stretch) const {
  const LatentRunShape& mla = store_.mla();
  const CudaStore::AttendScratch& scratch = store_.attend_scratch();
  const int heads = store_.attended().query_heads, width = mla.latent + mla.rope;
  const StepTables tables = memory_.Tables(rows);
  auto* latents = reinterpret_cast<Bf16*>(scratch.gathered->device()) + int64_t{stretch.key_row} * width;
  LaunchGatherKeys(
      {.cache = store_.cache_layer(args.cache),
       .block_table = tables.block_tables + int64_t{stretch.sequence} * tables.blocks_per_sequence_max,
       .begin = stretch.begin,
       .end = stretch.end,
       .out = latents},
      memory_.stream);
  const Windows<const Bf16> in{.data = latents, .row_stride = width, .heads = heads, .stride = 0};
  const auto out = [&](const std::unique_ptr<Memory>& memory, int channels) {
    return Windows<Bf16>{
        .data = reinterpret_cast<Bf16*>(memory->device()) + int64_t{stretch.key_row} * heads * channels,
        .row_stride = int64_t{heads} * channels,
        .heads = heads,
        .stride = channels};
  };
  const int count = stretch.end - stretch.begin;
  products_.MultiplyHeads(store_.heads(args.key_up), in, out(scratch.expanded_keys, mla.nope), count);
  products_.MultiplyHeads(store_.heads(args.value_up), in, out(scratch.expanded_values, mla.value), count);
}

}  // namespace numoe::execution::cuda
