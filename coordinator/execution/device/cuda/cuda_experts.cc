#include "coordinator/execution/device/cuda/cuda_experts.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/device/cuda/device_weights.h"
#include "coordinator/execution/device/cuda/kernels/count_experts.h"

namespace numoe::execution::cuda {

CudaExperts::CudaExperts(const ExpertSlotSpec& spec, Runtime& runtime, Stream stream)
    : spec_(spec),
      slot_(SlotOf(spec)),
      runtime_(runtime),
      stream_(stream),
      assigned_(static_cast<size_t>(spec.layers()) * static_cast<size_t>(spec.experts), -1) {}

absl::StatusOr<std::unique_ptr<CudaExperts>> CudaExperts::Create(const ExpertSlotSpec& spec, Runtime& runtime,
                                                                 Stream stream) {
  auto experts = std::unique_ptr<CudaExperts>(new CudaExperts(spec, runtime, stream));
  CudaExperts& e = *experts;
  const auto reserve = [&](std::unique_ptr<Memory>& memory, size_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(memory, runtime.Allocate(bytes));
    runtime.Clear(memory->device(), bytes, stream);
    return absl::OkStatus();
  };
  for (const bool moe : spec.layer_is_moe) {
    e.slots_.emplace_back();
    if (moe) RETURN_IF_ERROR(reserve(e.slots_.back(), e.slot_.bytes() * static_cast<size_t>(spec.slots)));
  }
  const ExpertScratch sizes = PlanExpertScratch(spec, /*rows_max=*/1);
  for (std::unique_ptr<Memory>* memory : {&e.table_, &e.counts_})
    RETURN_IF_ERROR(reserve(*memory, sizes.per_expert));
  ASSIGN_OR_RETURN(e.host_counts_, runtime.AllocateHost(sizes.per_expert));
  ASSIGN_OR_RETURN(e.host_table_, runtime.AllocateHost(sizes.per_expert));
  RETURN_IF_ERROR(runtime.Synchronize(stream));
  return experts;
}

absl::Status CudaExperts::Fill(LayerId layer, int slot, const ExpertMatrices& matrices) {
  NUMOE_CHECK(slot >= 0 && slot < spec_.slots);
  const auto& layer_slots = slots_[static_cast<size_t>(layer)];
  NUMOE_CHECK(layer_slots != nullptr) << "layer " << layer << " is dense";
  const auto holds = [](const MatrixView& found, const MatrixView& example) {
    return found.rows == example.rows && found.cols == example.cols && found.format == example.format;
  };
  if (!holds(matrices.gate, spec_.example.gate) || !holds(matrices.up, spec_.example.up) ||
      !holds(matrices.down, spec_.example.down)) {
    return absl::InvalidArgumentError(
        "found an expert whose matrices have other shapes or formats than the first expert's, for which the "
        "slots are made; use --num-gpu-experts=0");
  }
  std::vector<std::byte> staging(slot_.bytes());
  const absl::Span<std::byte> out = absl::MakeSpan(staging);
  PackDeviceGated(slot_.up_format, matrices.gate, matrices.up, out.subspan(0, slot_.up_bytes()));
  PackDeviceMatrix(slot_.down_format, matrices.down, out.subspan(slot_.up_bytes()));
  return runtime_.CopyNow(layer_slots->device() + static_cast<size_t>(slot) * slot_.bytes(), staging.data(),
                          staging.size());
}

void CudaExperts::Assign(LayerId layer, int slot, ExpertId expert) {
  int32_t* const row = assigned_.data() + int64_t{layer} * spec_.experts;
  std::replace(row, row + spec_.experts, static_cast<int32_t>(slot), int32_t{-1});
  if (expert != kNoExpert) row[expert] = slot;
  table_changed_ = true;
}

absl::Status CudaExperts::TakeCounts(absl::Span<uint32_t> counts) {
  NUMOE_CHECK_EQ(counts.size() * sizeof(uint32_t), counts_->bytes());
  runtime_.Copy(host_counts_->host(), counts_->device(), counts_->bytes(), stream_);
  runtime_.Clear(counts_->device(), counts_->bytes(), stream_);
  RETURN_IF_ERROR(runtime_.Synchronize(stream_));
  std::memcpy(counts.data(), host_counts_->host(), counts_->bytes());
  return absl::OkStatus();
}

void CudaExperts::BeginStep() {
  if (!table_changed_) return;
  std::memcpy(host_table_->host(), assigned_.data(), table_->bytes());
  runtime_.Copy(table_->device(), host_table_->host(), table_->bytes(), stream_);
  table_changed_ = false;
}

void CudaExperts::EnqueueCount(const ExpertsCall& call) {
  LaunchCountExperts({.experts = call.experts,
                      .entries = call.rows * spec_.experts_per_token,
                      .counts = At<uint32_t>(counts_) + int64_t{call.layer} * spec_.experts},
                     stream_);
}

SlotSet CudaExperts::Slots(LayerId layer) const {
  return {.slot = slot_,
          .slots = spec_.slots,
          .data = slots_[static_cast<size_t>(layer)]->device(),
          .table = At<int32_t>(table_) + int64_t{layer} * spec_.experts};
}

bool CudaExperts::Holds(LayerId layer, ExpertId expert) const {
  return assigned_[static_cast<size_t>(layer) * static_cast<size_t>(spec_.experts) +
                   static_cast<size_t>(expert)] >= 0;
}

}  // namespace numoe::execution::cuda
