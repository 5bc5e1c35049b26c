#include "coordinator/execution/device/cuda/expert_products.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution::cuda {

absl::StatusOr<std::unique_ptr<ExpertProducts>> ExpertProducts::Create(const ExpertSlotSpec& spec,
                                                                       int rows_max, Runtime& runtime,
                                                                       Stream stream) {
  auto products = std::unique_ptr<ExpertProducts>(new ExpertProducts(spec, rows_max, runtime, stream));
  ExpertProducts& p = *products;
  const auto reserve = [&](std::unique_ptr<Memory>& memory, size_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(memory, runtime.Allocate(bytes));
    runtime.Clear(memory->device(), bytes, stream);
    return absl::OkStatus();
  };
  const ExpertScratch sizes = PlanExpertScratch(spec, rows_max);
  RETURN_IF_ERROR(reserve(p.sort_counts_, sizes.sort_counts));
  for (std::unique_ptr<Memory>* memory : {&p.tokens_, &p.places_, &p.left_})
    RETURN_IF_ERROR(reserve(*memory, sizes.pairs));
  RETURN_IF_ERROR(reserve(p.work_, sizes.work));
  RETURN_IF_ERROR(reserve(p.work_count_, sizeof(int32_t)));
  RETURN_IF_ERROR(reserve(p.activations_, sizes.activations));
  RETURN_IF_ERROR(reserve(p.outputs_, sizes.outputs));
  RETURN_IF_ERROR(reserve(p.partials_, sizes.partials));
  RETURN_IF_ERROR(reserve(p.arrivals_, sizes.arrivals));
  return products;
}

ExpertsPlan ExpertProducts::PlanFor(const ExpertsCall& call, const SlotSet& set) const {
  return PlanExperts({.slot = set.slot,
                      .rows = call.rows,
                      .k = spec_.experts_per_token,
                      .experts = spec_.experts,
                      .slots = set.slots,
                      .multiprocessors = runtime_.facts().multiprocessors,
                      .exact = call.exact});
}

const int32_t* ExpertProducts::EnqueueSort(const ExpertsCall& call, const SlotSet& set) {
  NUMOE_CHECK_LE(call.rows, rows_max_);
  const int pairs = call.rows * spec_.experts_per_token;
  const ExpertsPlan plan = PlanFor(call, set);
  NUMOE_CHECK_LE(PermuteScratchInts(pairs, set.slots) * sizeof(int32_t), sort_counts_->bytes());
  NUMOE_CHECK_LE(static_cast<size_t>(plan.work_max) * sizeof(GemmWork), work_->bytes());
  LaunchPermute({.experts = call.experts,
                 .slots = set.table,
                 .rows = call.rows,
                 .k = spec_.experts_per_token,
                 .slot_count = set.slots,
                 .piece_rows = plan.piece_rows,
                 .counts = At<int32_t>(sort_counts_),
                 .tokens = At<int32_t>(tokens_),
                 .places = At<int32_t>(places_),
                 .left = At<int32_t>(left_),
                 .work = At<GemmWork>(work_),
                 .work_count = At<int32_t>(work_count_)},
                stream_);
  return left();
}

void ExpertProducts::EnqueueProducts(const ExpertsCall& call, const SlotSet& set) {
  const ExpertsPlan plan = PlanFor(call, set);
  NUMOE_CHECK_LE(plan.partial_bytes(), partials_->bytes());
  NUMOE_CHECK_LE(static_cast<size_t>(plan.arrivals()) * sizeof(uint32_t), arrivals_->bytes());
  LaunchExperts({.slot = set.slot,
                 .slots = set.data,
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

void ExpertProducts::EnqueueCombine(const ExpertsCall& call, const SlotSet& set, float* residual) {
  LaunchCombine({.outputs = At<Bf16>(outputs_),
                 .places = At<int32_t>(places_),
                 .weights = call.weights,
                 .rows = call.rows,
                 .k = spec_.experts_per_token,
                 .hidden = set.slot.hidden,
                 .residual = residual},
                stream_);
}

}  // namespace numoe::execution::cuda
