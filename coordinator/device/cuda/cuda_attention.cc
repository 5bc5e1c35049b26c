// Attention of a step. Decode rows that fit one plan are planned once, before the first layer; those of a
// longer step, or of one in halves, stretch by stretch in every layer. Prefill follows decode: a decode
// kernel writes zeros to the rows it skips.
#include <algorithm>

#include "common/base/check.h"
#include "coordinator/device/cuda/cuda_device.h"
#include "coordinator/device/cuda/kernels/copy_windows.h"

namespace numoe::cuda {
namespace {

// From so many rows on a run's keys are better read once for 128 rows of a head than once for each row.
constexpr int kPagedPrefillRowsMin = 8;

}  // namespace

bool CudaDevice::Prefills(const PrefillRun& run) const {
  if (latent()) return HasExpandedPrefill(mla_.nope, mla_.rope, mla_.value) && ExpandsLatents(run, mla_);
  return run.rows >= kPagedPrefillRowsMin && HasPagedPrefill(cache_spec_.row.key_width);
}

DecodeShape CudaDevice::ShapeOf(int rows) const {
  DecodeBounds bounds = AttendBounds(rows, bucket_.blocks_per_sequence, bucket_.exact);
  const int heads = cache_spec_.query_heads, cache_heads = cache_spec_.row.heads;
  if (latent()) {
    bounds.tile = latent_kernel_.keys;
    bounds.groups = (heads + latent_kernel_.heads - 1) / latent_kernel_.heads;
    bounds.workers_per_group = std::max(1, facts_.multiprocessors / bounds.groups);
  } else {
    const int sharing = heads / cache_heads;
    bounds.tile = kGroupedTileKeys;
    bounds.groups = cache_heads * ((sharing + kGroupedHeadsMax - 1) / kGroupedHeadsMax);
    bounds.workers_per_group = std::max(1, facts_.multiprocessors * grouped_blocks_ / bounds.groups);
  }
  return PlanDecode(bounds);
}

void CudaDevice::PlanPieces(const DecodeShape& shape, int first) {
  LaunchPlanPieces({.shape = shape,
                    .lists = PlaceLists(shape, attend_lists_->device()),
                    .positions = buffers_->decode_positions(used().first + first)},
                   stream_);
}

// Calls decode(shape, first row) for stretches of rows that one plan holds.
template <typename Decode>
void CudaDevice::ForStretches(Decode decode) {
  if (used().decode_rows == 0) return;
  const int rows_max = AttendRows(bucket_.exact);
  for (int first = 0; first < rows_; first += rows_max) {
    const DecodeShape shape = ShapeOf(std::min(rows_max, rows_ - first));
    if (!PlansPiecesOnce()) PlanPieces(shape, first);
    decode(shape, first);
  }
}

PrefillArgs CudaDevice::PrefillArgsOf(size_t pass, Tensor query, Tensor out, int key_width, int value_width,
                                      float scale) const {
  return {.tasks = buffers_->tasks(pass),
          .task_count = static_cast<int>(passes_[pass].tasks.size()),
          .heads = cache_spec_.query_heads,
          .key_width = key_width,
          .value_width = value_width,
          .scale = scale,
          .query = Data<const Bf16>(query),
          .out = Data<Bf16>(out)};
}

// --- grouped-query attention -------------------------------------------------------------------------------

void CudaDevice::Attend(const AttendArgs& args) {
  if (!Enqueues()) return;
  NUMOE_CHECK(!args.value_in_key && args.heads == cache_spec_.query_heads);
  ForStretches([&](const DecodeShape& shape, int first) { DecodeGrouped(args, shape, first); });
  for (size_t pass = used().pass_begin; pass < used().pass_end; ++pass) {
    LaunchPagedPrefill(
        {.common = PrefillArgsOf(pass, args.query, args.out, args.key_width, args.value_width, args.scale),
         .cache = cache_layers_[static_cast<size_t>(args.layer)],
         .tables = Tables()},
        stream_);
  }
}

void CudaDevice::DecodeGrouped(const AttendArgs& args, const DecodeShape& shape, int first) {
  StepTables tables = Tables();
  tables.sequences += first;
  const DecodeLists lists = PlaceLists(shape, attend_lists_->device());
  const DecodeParts parts = PlaceParts(shape, args.heads, args.value_width, attend_parts_->device());
  Bf16* out = Data<Bf16>(args.out) + int64_t{first} * args.out.cols;
  LaunchGroupedDecode({.cache = cache_layers_[static_cast<size_t>(args.layer)],
                       .tables = tables,
                       .shape = shape,
                       .lists = lists,
                       .parts = parts,
                       .heads = args.heads,
                       .scale = args.scale,
                       .query = Data<const Bf16>(args.query) + int64_t{first} * args.query.cols,
                       .out = out},
                      stream_);
  LaunchMergeParts({.shape = shape,
                    .lists = lists,
                    .parts = parts,
                    .heads = args.heads,
                    .width = args.value_width,
                    .out = out},
                   stream_);
}

// --- latent attention --------------------------------------------------------------------------------------

void CudaDevice::AttendLatent(const LatentAttendArgs& args) {
  if (!Enqueues()) return;
  NUMOE_CHECK(args.key_up.heads == cache_spec_.query_heads && args.key_up.cols == mla_.latent);
  if (used().decode_rows > 0) {
    Absorb(args);
    ForStretches([&](const DecodeShape& shape, int first) { DecodeLatent(args, shape, first); });
    const HeadView context{args.context, args.key_up.heads, mla_.latent, 0};
    const HeadView out{args.out, args.key_up.heads, mla_.value, 0};
    MultiplyHeads(heads_[static_cast<size_t>(args.value_up.id)], View<const Bf16>(context), View<Bf16>(out),
                  rows_);
  }
  PrefillLatent(args);
}

// absorbed = [W_UK^T q_nope, q_rope] of each head.
void CudaDevice::Absorb(const LatentAttendArgs& args) {
  const int heads = args.key_up.heads, width = mla_.latent + mla_.rope;
  const HeadView query{args.query, heads, mla_.nope + mla_.rope, 0};
  const HeadView absorbed{args.absorbed, heads, width, 0};
  MultiplyHeads(heads_[static_cast<size_t>(args.key_absorbed.id)], View<const Bf16>(query),
                View<Bf16>(absorbed), rows_);
  LaunchCopyWindows({.in = View<const Bf16>({args.query, heads, query.stride, mla_.nope}),
                     .out = View<Bf16>({args.absorbed, heads, width, mla_.latent}),
                     .rows = rows_,
                     .width = mla_.rope},
                    stream_);
}

void CudaDevice::DecodeLatent(const LatentAttendArgs& args, const DecodeShape& shape, int first) {
  const int heads = cache_spec_.query_heads;
  StepTables tables = Tables();
  tables.sequences += first;
  const DecodeLists lists = PlaceLists(shape, attend_lists_->device());
  const DecodeParts parts = PlaceParts(shape, heads, mla_.latent, attend_parts_->device());
  Bf16* out = Data<Bf16>(args.context) + int64_t{first} * args.context.cols;
  LaunchLatentDecode({.kernel = latent_kernel_,
                      .cache = cache_layers_[static_cast<size_t>(args.layer)],
                      .tables = tables,
                      .shape = shape,
                      .lists = lists,
                      .parts = parts,
                      .heads = heads,
                      .scale = args.scale,
                      .query = Data<const Bf16>(args.absorbed) + int64_t{first} * args.absorbed.cols,
                      .out = out},
                     stream_);
  LaunchMergeParts(
      {.shape = shape, .lists = lists, .parts = parts, .heads = heads, .width = mla_.latent, .out = out},
      stream_);
}

void CudaDevice::PrefillLatent(const LatentAttendArgs& args) {
  const int heads = cache_spec_.query_heads;
  const auto bf16 = [](const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<const Bf16*>(memory->device());
  };
  const auto fp32 = [](const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<float*>(memory->device());
  };
  for (size_t pass = used().pass_begin; pass < used().pass_end; ++pass) {
    for (const PrefillStretch& stretch : passes_[pass].stretches) ExpandStretch(args, stretch);
    ExpandedPrefillArgs launch{
        .common = PrefillArgsOf(pass, args.query, args.out, mla_.nope + mla_.rope, mla_.value, args.scale),
        .keys = bf16(expanded_keys_),
        .key_stride = int64_t{heads} * mla_.nope,
        .key_head_stride = mla_.nope,
        .ropes = bf16(gathered_) + mla_.latent,
        .rope_stride = mla_.latent + mla_.rope,
        .rope_width = mla_.rope,
        .values = bf16(expanded_values_),
        .value_stride = int64_t{heads} * mla_.value,
        .value_head_stride = mla_.value};
    launch.common.state = {fp32(prefill_sums_), fp32(prefill_maxima_), fp32(prefill_totals_)};
    LaunchExpandedPrefill(launch, stream_);
  }
}

// Keys and values of all heads for a stretch of the cache: K = W_UK c, V = W_UV c.
void CudaDevice::ExpandStretch(const LatentAttendArgs& args, const PrefillStretch& stretch) {
  const int heads = cache_spec_.query_heads, width = mla_.latent + mla_.rope;
  const StepTables tables = Tables();
  auto* latents = reinterpret_cast<Bf16*>(gathered_->device()) + int64_t{stretch.key_row} * width;
  LaunchGatherKeys(
      {.cache = cache_layers_[static_cast<size_t>(args.layer)],
       .block_table = tables.block_tables + int64_t{stretch.sequence} * tables.blocks_per_sequence_max,
       .begin = stretch.begin,
       .end = stretch.end,
       .out = latents},
      stream_);
  const Windows<const Bf16> in{.data = latents, .row_stride = width, .heads = heads, .stride = 0};
  const auto out = [&](const std::unique_ptr<Memory>& memory, int channels) {
    return Windows<Bf16>{
        .data = reinterpret_cast<Bf16*>(memory->device()) + int64_t{stretch.key_row} * heads * channels,
        .row_stride = int64_t{heads} * channels,
        .heads = heads,
        .stride = channels};
  };
  const int rows = stretch.end - stretch.begin;
  MultiplyHeads(heads_[static_cast<size_t>(args.key_up.id)], in, out(expanded_keys_, mla_.nope), rows);
  MultiplyHeads(heads_[static_cast<size_t>(args.value_up.id)], in, out(expanded_values_, mla_.value), rows);
}

}  // namespace numoe::cuda
