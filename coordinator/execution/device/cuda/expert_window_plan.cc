#include "coordinator/execution/device/cuda/expert_window_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"

namespace numoe::execution::cuda {
namespace {

absl::StatusOr<DeviceFormat> DeviceFormatOf(const std::string& name) {
  ASSIGN_OR_RETURN(const WeightFormat format, ParseWeightFormat(name));
  switch (format) {
    case WeightFormat::kRawInt4:
    case WeightFormat::kInt4:
      return DeviceFormat::kInt4;
    case WeightFormat::kFp8:
      return DeviceFormat::kFp8;
    default:
      return DeviceFormat::kBf16;
  }
}

// Checks a worker's part. A part that ends inside the expert must end with a whole panel of outputs and a
// whole step of inputs.
absl::Status CheckPart(const LayerPart& part, const LayerPart& example, bool by_expert, int hidden,
                       int width) {
  const bool whole = part.first == 0 && part.width == width;
  const bool inside = part.first + part.width <= width && part.width > 0;
  if (by_expert ? !whole : !inside) {
    return absl::InvalidArgumentError(
        fmt::format("found a worker that holds rows {} to {}, expected {} of {} rows", part.first,
                    part.first + part.width, by_expert ? "all" : "a part", width));
  }
  if (!whole && (part.first % kStepInputs != 0 || part.width % kStepInputs != 0)) {
    return absl::UnimplementedError(
        fmt::format("found a worker that holds rows {} to {} of every expert, expected multiples of {} rows "
                    "for fetching by a GPU; "
                    "start the workers with --slice=expert",
                    part.first, part.first + part.width, kStepInputs));
  }
  if (part.layer.up_format != example.layer.up_format || part.layer.down_format != example.layer.down_format)
    return absl::UnimplementedError(
        "found workers that hold a layer's experts in different formats, expected one");
  ASSIGN_OR_RETURN(const WeightFormat up, ParseWeightFormat(part.layer.up_format));
  ASSIGN_OR_RETURN(const WeightFormat down, ParseWeightFormat(part.layer.down_format));
  const uint64_t bytes = 2 * PackedBytes(up, part.width, hidden) + PackedBytes(down, hidden, part.width);
  if (bytes == part.layer.expert_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("found an expert of layer {} with {} bytes on a worker, expected {}", part.layer.layer,
                  part.layer.expert_bytes, bytes));
}

}  // namespace

std::vector<ExpertWindow> PlanWindows(LayerId layer, const ExpertShare& share, int capacity,
                                      const std::function<bool(ExpertId)>& held) {
  NUMOE_CHECK_GT(capacity, 0);
  const int step = share.by_expert ? share.worker_count : 1;
  std::vector<ExpertWindow> windows;
  for (int first = 0; first < step; ++first) {  // the worker that owns the experts, if they are whole
    int place = 0;
    for (ExpertId expert = first; expert < share.num_experts; expert += step, ++place) {
      if (held(expert)) continue;
      if (windows.empty() || static_cast<int>(windows.back().experts.size()) == capacity)
        windows.push_back({.layer = layer, .experts = {}, .copies = {}});
      ExpertWindow& window = windows.back();
      const int slot = static_cast<int>(window.experts.size());
      window.experts.push_back(expert);
      const bool joins = !window.copies.empty() && window.copies.back().worker == first &&
                         window.copies.back().place + window.copies.back().count == place;
      if (joins) {
        ++window.copies.back().count;
      } else {
        window.copies.push_back({.worker = first, .place = place, .slot = slot, .count = 1});
      }
    }
  }
  if (share.by_expert) return windows;
  // Every worker has a part of every expert.
  for (ExpertWindow& window : windows) {
    const std::vector<WindowCopy> first = window.copies;
    for (int worker = 1; worker < share.worker_count; ++worker) {
      for (WindowCopy copy : first) {
        copy.worker = worker;
        window.copies.push_back(copy);
      }
    }
  }
  return windows;
}

absl::StatusOr<ExpertSlot> SlotOfParts(const std::vector<LayerPart>& parts, bool by_expert, int hidden,
                                       int width) {
  NUMOE_CHECK(!parts.empty());
  int64_t covered = 0;
  for (const LayerPart& part : parts) {
    RETURN_IF_ERROR(CheckPart(part, parts[0], by_expert, hidden, width));
    if (!by_expert && part.first != covered)
      return absl::InvalidArgumentError(
          fmt::format("a worker's part begins at row {}, expected {}", part.first, covered));
    covered += part.width;
  }
  if (!by_expert && covered != width) {
    return absl::InvalidArgumentError(
        fmt::format("the workers' parts end at row {}, expected {}", covered, width));
  }
  ExpertSlot slot{.hidden = hidden, .width = width};
  ASSIGN_OR_RETURN(slot.up_format, DeviceFormatOf(parts[0].layer.up_format));
  ASSIGN_OR_RETURN(slot.down_format, DeviceFormatOf(parts[0].layer.down_format));
  return slot;
}

}  // namespace numoe::execution::cuda
