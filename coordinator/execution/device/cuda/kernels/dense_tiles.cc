#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"

#include "common/base/check.h"

namespace numoe::execution::cuda {
namespace {

void CheckArgs(const GemmArgs& args) {
  NUMOE_CHECK(args.target_count >= 1 && args.target_count <= kGemmTargetsMax);
  const DeviceMatrix& first = args.targets[0].matrix;
  int row_blocks = 0;
  for (int i = 0; i < args.target_count; ++i) {
    const GemmTarget& target = args.targets[i];
    NUMOE_CHECK(target.matrix.format == first.format && target.matrix.cols == first.cols);
    NUMOE_CHECK(target.matrix.data != nullptr && target.out != nullptr);
    NUMOE_CHECK(!target.matrix.gated || target.output == GemmOutput::kBf16);
    const int panels = PanelCount(target.matrix.rows, target.matrix.gated);
    row_blocks += (panels + args.plan.warps - 1) / args.plan.warps;
  }
  NUMOE_CHECK_EQ(row_blocks, args.plan.row_blocks) << "the plan was made for a different shape";
  NUMOE_CHECK_EQ(args.x_stride % 8, 0);
  NUMOE_CHECK_EQ(args.x_group_stride % 8, 0);
  NUMOE_CHECK_EQ(reinterpret_cast<uintptr_t>(args.x) % 16, 0u);
  NUMOE_CHECK_EQ(args.group_bytes % 16, 0u);
  NUMOE_CHECK((args.work == nullptr) == (args.work_count == nullptr));
  NUMOE_CHECK(args.plan.splits == 1 || (args.partials != nullptr && args.arrivals != nullptr));
  if (args.work == nullptr) {
    const int pieces = (args.rows + args.plan.tokens() - 1) / args.plan.tokens() * args.groups;
    NUMOE_CHECK_EQ(pieces, args.plan.pieces) << "the plan was made for a different shape";
  }
}

}  // namespace

void LaunchGemm(const GemmArgs& args, Stream stream) {
  CheckArgs(args);
  switch (args.targets[0].matrix.format) {
    case DeviceFormat::kBf16:
      return LaunchGemmBf16(args, stream);
    case DeviceFormat::kFp8:
      return LaunchGemmFp8(args, stream);
    case DeviceFormat::kInt4:
      return LaunchGemmInt4(args, stream);
  }
}

}  // namespace numoe::execution::cuda
