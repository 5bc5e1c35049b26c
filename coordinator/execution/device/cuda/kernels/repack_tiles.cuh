// The assignment of the workers' panels to warps, and the places of a warp's outputs in the target: shared by
// the formats that keep their bits (experts_repack.cu) and those that become BF16 (experts_widen.cu).
//
// A warp converts one step of one panel of the source. Its 32 outputs are two tiles of 16; each is written to
// a tile of a panel of the target. A panel of a gated target has 16 outputs of gate (tile 0) and 16 of up
// (tile 1). Included by .cu files only.
#pragma once

#include "coordinator/execution/device/cuda/kernels/experts_repack.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {

inline constexpr int kRepackWarps = 4;  // per block, one step for each

inline LaunchShape RepackShape(const RepackArgs& args) {
  return {dim3((StepCount(args.cols) + kRepackWarps - 1) / kRepackWarps, PanelCount(args.rows, false),
               args.count),
          dim3(kRepackWarps * 32), 0};
}

/// The panel and step of the source that this warp converts; the last block may have warps without any.
struct RepackPlace {
  int warp, lane, panel, step;
};
__device__ __forceinline__ RepackPlace PlaceOfWarp() {
  const int warp = static_cast<int>(threadIdx.x / 32);
  return {warp, static_cast<int>(threadIdx.x % 32), static_cast<int>(blockIdx.y),
          static_cast<int>(blockIdx.x) * kRepackWarps + warp};
}

/// Calls `write(half, m, row, at, out)` for each half of the panel's outputs for which the target has a
/// place: `out` is the data of this block's expert, in which the half is tile m of step `at` and begins with
/// output `row`.
template <class Write>
__device__ __forceinline__ void ForTargetTiles(const RepackArgs& args, const RepackPlace& place,
                                               Write write) {
  const DeviceMatrix& target = args.target;
  const int panels = PanelCount(target.rows, target.gated);
  auto* out = reinterpret_cast<unsigned char*>(args.out) + blockIdx.z * args.out_stride;
  for (int half = 0; half < 2; ++half) {
    const int row = args.row_begin + place.panel * kPanelOutputs + half * kTileOutputs;
    const int to_panel = row / (target.gated ? kTileOutputs : kPanelOutputs);
    if (to_panel >= panels)
      continue;  // a gated target has no panel for the padding of the source's last panel
    const size_t at = static_cast<size_t>(to_panel) * static_cast<size_t>(StepCount(target.cols)) +
                      static_cast<size_t>(args.col_begin / kStepInputs + place.step);
    write(half, target.gated ? args.half : half, row, at, out);
  }
}

}  // namespace numoe::execution::cuda
