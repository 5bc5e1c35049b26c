#include "coordinator/execution/device/cuda/kernels/experts.h"

#include "common/base/check.h"

namespace numoe::execution::cuda {
void LaunchExperts(const ExpertsArgs& args, Stream stream) {
  const ExpertSlot& slot = args.slot;
  NUMOE_CHECK(slot.hidden % 8 == 0 && slot.width % 8 == 0);
  NUMOE_CHECK(args.plan.piece_rows == args.plan.up.tokens() &&
              args.plan.piece_rows == args.plan.down.tokens());
  GemmArgs up{.target_count = 1,
              .x = args.x,
              .x_stride = slot.hidden,
              .gather = args.tokens,
              .group_bytes = slot.bytes(),
              .work = args.work,
              .work_count = args.work_count,
              .plan = args.plan.up,
              .partials = args.partials,
              .arrivals = args.arrivals};
  up.targets[0] = {.matrix = {slot.up_format, slot.width, slot.hidden, true, args.slots},
                   .out = args.activations,
                   .out_stride = slot.width};
  LaunchGemm(up, stream);
  GemmArgs down = up;
  down.x = args.activations;
  down.x_stride = slot.width;
  down.gather = nullptr;
  down.plan = args.plan.down;
  down.targets[0] = {
      .matrix = {slot.down_format, slot.hidden, slot.width, false, args.slots + slot.up_bytes()},
      .out = args.outputs,
      .out_stride = slot.hidden};
  LaunchGemm(down, stream);
}

}  // namespace numoe::execution::cuda
