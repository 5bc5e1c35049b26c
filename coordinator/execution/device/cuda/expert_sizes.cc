#include "coordinator/execution/device/cuda/expert_sizes.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/allocation.h"
#include "coordinator/execution/device/cuda/device_weights.h"
#include "coordinator/execution/device/cuda/kernels/permute.h"

namespace numoe::execution::cuda {
namespace {

constexpr size_t kArrivals = size_t{1} << 16;  // blocks of a split product
// Large enough that the start of a copy costs little, small compared to a layer's experts.
constexpr size_t kStageBytesMax = size_t{128} << 20;

}  // namespace

ExpertSlot SlotOf(const ExpertSlotSpec& spec) {
  const ExpertMatrices& example = spec.example;
  const DeviceFormat gate = NativeDeviceFormat(example.gate), up = NativeDeviceFormat(example.up);
  return {.up_format = gate == up ? gate : DeviceFormat::kBf16,
          .down_format = NativeDeviceFormat(example.down),
          .hidden = static_cast<int>(example.gate.cols),
          .width = static_cast<int>(example.gate.rows)};
}

ExpertScratch PlanExpertScratch(const ExpertSlotSpec& spec, int rows_max) {
  const ExpertSlot slot = SlotOf(spec);
  const size_t pairs = static_cast<size_t>(rows_max) * static_cast<size_t>(spec.experts_per_token);
  const auto width = [](int values) { return static_cast<size_t>(values) * sizeof(Bf16); };
  return {
      .pairs = pairs * sizeof(int32_t),
      .sort_counts = (pairs / kPermuteThreads + 2) * kSlotsMax * sizeof(int32_t),
      .work = (pairs + static_cast<size_t>(std::max(spec.slots, spec.window))) *
              sizeof(GemmWork),  // no piece is empty
      .activations = pairs * width(slot.width),
      .outputs = pairs * width(slot.hidden),
      .partials = kPartialBytesMax,
      .arrivals = kArrivals * sizeof(uint32_t),
      .per_expert = static_cast<size_t>(spec.layers()) * static_cast<size_t>(spec.experts) * sizeof(int32_t)};
}

WindowSizes PlanWindowSizes(const ExpertSlotSpec& spec) {
  if (spec.window == 0) return {};
  const size_t slot = SlotOf(spec).bytes();
  const auto moe = static_cast<int>(std::count(spec.layer_is_moe.begin(), spec.layer_is_moe.end(), true));
  WindowSizes sizes{.window = slot * static_cast<size_t>(spec.window)};
  // A worker's last panel and scales may be padded to up to twice what the device needs.
  sizes.stage = std::max(2 * slot, std::min(kStageBytesMax, sizes.window / 4));
  sizes.tables_max = moe * ((spec.experts + spec.window - 1) / spec.window);
  sizes.tables = static_cast<size_t>(sizes.tables_max) * static_cast<size_t>(spec.experts) * sizeof(int32_t);
  return sizes;
}

uint64_t SlotBytes(const ExpertSlotSpec& spec) {
  const auto moe = std::count(spec.layer_is_moe.begin(), spec.layer_is_moe.end(), true);
  return AllocatedBytes(SlotOf(spec).bytes() * static_cast<uint64_t>(spec.slots)) *
         static_cast<uint64_t>(moe);
}

}  // namespace numoe::execution::cuda
