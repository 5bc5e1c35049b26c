// Attention of a step. Rows that fit one plan are planned once, before the first layer; those of a longer
// step piece by piece in every layer.
#include <algorithm>

#include "common/base/check.h"
#include "coordinator/device/cuda/cuda_device.h"
#include "coordinator/device/cuda/kernels/copy_windows.h"

namespace numoe::cuda {

DecodeShape CudaDevice::ShapeOf(int rows) const {
  DecodeBounds bounds = AttendBounds(rows, bucket_.blocks_per_sequence, bucket_.exact);
  bounds.tile = latent_kernel_.keys;
  bounds.groups = (cache_spec_.query_heads + latent_kernel_.heads - 1) / latent_kernel_.heads;
  bounds.workers_per_group = std::max(1, facts_.multiprocessors / bounds.groups);
  return PlanDecode(bounds);
}

void CudaDevice::PlanRows(const DecodeShape& shape, int first) {
  LaunchPlanPieces({.shape = shape,
                    .lists = PlaceLists(shape, attend_lists_->device()),
                    .positions = buffers_->tables().positions + first},
                   stream_);
}

void CudaDevice::AttendLatent(const LatentAttendArgs& args) {
  if (!Enqueues()) return;
  const int heads = args.key_up.heads, nope = args.key_up.rows, latent = args.key_up.cols;
  const int width = latent_kernel_.widths.latent + latent_kernel_.widths.rope;
  NUMOE_CHECK(latent == latent_kernel_.widths.latent && heads == cache_spec_.query_heads);
  NUMOE_CHECK_EQ(args.absorbed.cols, heads * width);
  const HeadView query{args.query, heads, args.query.cols / heads, 0};
  const HeadView absorbed{args.absorbed, heads, width, 0};
  MultiplyHeads(heads_[static_cast<size_t>(args.key_absorbed.id)], View<const Bf16>(query),
                View<Bf16>(absorbed));
  LaunchCopyWindows({.in = View<const Bf16>({args.query, heads, query.stride, nope}),
                     .out = View<Bf16>({args.absorbed, heads, width, latent}),
                     .rows = rows_,
                     .width = width - latent},
                    stream_);
  const int rows_max = AttendRows(bucket_.exact);
  for (int first = 0; first < rows_; first += rows_max) {
    const int rows = std::min(rows_max, rows_ - first);
    const DecodeShape shape = ShapeOf(rows);
    if (rows_ > rows_max) PlanRows(shape, first);
    AttendRowsOf(args, shape, first);
  }
  const HeadView context{args.context, heads, latent, 0};
  const HeadView out{args.out, heads, args.value_up.rows, 0};
  MultiplyHeads(heads_[static_cast<size_t>(args.value_up.id)], View<const Bf16>(context), View<Bf16>(out));
}

void CudaDevice::AttendRowsOf(const LatentAttendArgs& args, const DecodeShape& shape, int first) {
  const int heads = cache_spec_.query_heads, latent = latent_kernel_.widths.latent;
  StepTables tables = buffers_->tables();
  tables.positions += first;
  tables.sequences += first;
  const DecodeLists lists = PlaceLists(shape, attend_lists_->device());
  const DecodeParts parts = PlaceParts(shape, heads, latent, attend_parts_->device());
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
      {.shape = shape, .lists = lists, .parts = parts, .heads = heads, .width = latent, .out = out}, stream_);
}

void CudaDevice::Attend(const AttendArgs&) { NUMOE_CHECK(false) << "grouped-query attention"; }

}  // namespace numoe::cuda
