#include "coordinator/device/cuda/cuda_experts.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/device/cuda/device_weights.h"
#include "coordinator/device/cuda/kernels/count_experts.h"

namespace numoe::cuda {

CudaExperts::CudaExperts(const ExpertSlotSpec& spec, int rows_max, Runtime& runtime, Stream stream)
    : spec_(spec), rows_max_(rows_max), slot_(SlotOf(spec)), runtime_(runtime), stream_(stream) {}

absl::StatusOr<std::unique_ptr<CudaExperts>> CudaExperts::Create(const ExpertSlotSpec& spec, int rows_max,
                                                                 Runtime& runtime, Stream stream) {
  auto experts = std::unique_ptr<CudaExperts>(new CudaExperts(spec, rows_max, runtime, stream));
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
  const ExpertScratch sizes = PlanExpertScratch(spec, rows_max);
  RETURN_IF_ERROR(reserve(e.sort_counts_, sizes.sort_counts));
  for (std::unique_ptr<Memory>* memory : {&e.tokens_, &e.places_, &e.left_})
    RETURN_IF_ERROR(reserve(*memory, sizes.pairs));
  RETURN_IF_ERROR(reserve(e.work_, sizes.work));
  RETURN_IF_ERROR(reserve(e.work_count_, sizeof(int32_t)));
  RETURN_IF_ERROR(reserve(e.activations_, sizes.activations));
  RETURN_IF_ERROR(reserve(e.outputs_, sizes.outputs));
  RETURN_IF_ERROR(reserve(e.partials_, sizes.partials));
  RETURN_IF_ERROR(reserve(e.arrivals_, sizes.arrivals));
  for (std::unique_ptr<Memory>* memory : {&e.table_, &e.counts_})
    RETURN_IF_ERROR(reserve(*memory, sizes.per_expert));
  ASSIGN_OR_RETURN(e.host_counts_, runtime.AllocateHost(sizes.per_expert));
  ASSIGN_OR_RETURN(e.host_table_, runtime.AllocateHost(sizes.per_expert));
  std::memset(e.host_table_->host(), 0xff, sizes.per_expert);  // -1: with the workers
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
        "an expert is stored in another way than the first one, which the slots are for");
  }
  staging_.resize(slot_.bytes());
  const absl::Span<std::byte> out = absl::MakeSpan(staging_);
  PackDeviceGated(slot_.up_format, matrices.gate, matrices.up, out.subspan(0, slot_.up_bytes()));
  PackDeviceMatrix(slot_.down_format, matrices.down, out.subspan(slot_.up_bytes()));
  return runtime_.CopyNow(layer_slots->device() + static_cast<size_t>(slot) * slot_.bytes(), staging_.data(),
                          staging_.size());
}

void CudaExperts::Assign(LayerId layer, int slot, ExpertId expert) {
  auto* row = reinterpret_cast<int32_t*>(host_table_->host()) + int64_t{layer} * spec_.experts;
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
  runtime_.Copy(table_->device(), host_table_->host(), table_->bytes(), stream_);
  table_changed_ = false;
}

ExpertsPlan CudaExperts::PlanFor(const ExpertsCall& call) const {
  return PlanExperts({.slot = slot_,
                      .rows = call.rows,
                      .k = spec_.experts_per_token,
                      .experts = spec_.experts,
                      .slots = spec_.slots,
                      .multiprocessors = runtime_.facts().multiprocessors,
                      .exact = call.exact});
}

const int32_t* CudaExperts::EnqueueSort(const ExpertsCall& call) {
  NUMOE_CHECK_LE(call.rows, rows_max_);
  const int pairs = call.rows * spec_.experts_per_token;
  const ExpertsPlan plan = PlanFor(call);
  NUMOE_CHECK_LE(PermuteScratchInts(pairs, spec_.slots) * sizeof(int32_t), sort_counts_->bytes());
  NUMOE_CHECK_LE(static_cast<size_t>(plan.work_max) * sizeof(GemmWork), work_->bytes());
  const int64_t first = int64_t{call.layer} * spec_.experts;
  LaunchCountExperts({.experts = call.experts, .entries = pairs, .counts = At<uint32_t>(counts_) + first},
                     stream_);
  LaunchPermute({.experts = call.experts,
                 .slots = At<int32_t>(table_) + first,
                 .rows = call.rows,
                 .k = spec_.experts_per_token,
                 .slot_count = spec_.slots,
                 .piece_rows = plan.piece_rows,
                 .counts = At<int32_t>(sort_counts_),
                 .tokens = At<int32_t>(tokens_),
                 .places = At<int32_t>(places_),
                 .left = At<int32_t>(left_),
                 .work = At<GemmWork>(work_),
                 .work_count = At<int32_t>(work_count_)},
                stream_);
  return At<int32_t>(left_);
}

void CudaExperts::EnqueueProducts(const ExpertsCall& call) {
  const ExpertsPlan plan = PlanFor(call);
  NUMOE_CHECK_LE(plan.partial_bytes(), partials_->bytes());
  NUMOE_CHECK_LE(static_cast<size_t>(plan.arrivals()) * sizeof(uint32_t), arrivals_->bytes());
  LaunchExperts({.slot = slot_,
                 .slots = slots_[static_cast<size_t>(call.layer)]->device(),
                 .x = call.hidden,
                 .tokens = At<int32_t>(tokens_),
                 .work = At<GemmWork>(work_),
                 .work_count = At<int32_t>(work_count_),
                 .plan = plan,
                 .activations = At<Bf16>(activations_),
                 .outputs = At<Bf16>(outputs_),
                 .partials = At<float>(partials_),
                 .arrivals = At<uint32_t>(arrivals_)},
                stream_);
}

void CudaExperts::EnqueueCombine(const ExpertsCall& call, float* residual) {
  LaunchCombine({.outputs = At<Bf16>(outputs_),
                 .places = At<int32_t>(places_),
                 .weights = call.weights,
                 .rows = call.rows,
                 .k = spec_.experts_per_token,
                 .hidden = slot_.hidden,
                 .residual = residual},
                stream_);
}

}  // namespace numoe::cuda
