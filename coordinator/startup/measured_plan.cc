#include "coordinator/startup/measured_plan.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/model/hot_experts.h"
#include "coordinator/startup/host_share.h"
#include "coordinator/startup/part_options.h"

namespace numoe::startup {
namespace {

// Stands in for the workers, because a device that only measures computes nothing.
class NoExperts final : public execution::ExpertBackend {
 public:
  absl::Status Start(const LayerCallView&) override { return Absent(); }
  absl::Status Finish(absl::Span<float>) override { return Absent(); }
  absl::Status AwaitReady(int64_t) override { return Absent(); }
  bool Ready() const override { return false; }

 private:
  static absl::Status Absent() { return absl::UnavailableError("no worker is connected yet"); }
};

}  // namespace

absl::StatusOr<CapacityPlan> PlanOnDevice(const CapacityRequest& request, const Checkpoint& checkpoint,
                                          const ModelConfig& config,
                                          const execution::ModelOptions& model_options,
                                          DeviceChoice& choice) {
  NUMOE_CHECK_EQ(model_options.kv_blocks, 0) << "the plan chooses the number of blocks";
  const auto measure = [&](const Capacity& capacity) -> absl::StatusOr<execution::DeviceMemory> {
    NoExperts experts;
    ASSIGN_OR_RETURN(const auto device, choice.Create(capacity.model_len, /*measure_only=*/true));
    if (capacity.gpu_experts > 0 || capacity.window > 0) {
      ASSIGN_OR_RETURN(const execution::ExpertSlotSpec spec,
                       execution::SlotSpecOf(checkpoint, config, capacity.gpu_experts, capacity.window));
      RETURN_IF_ERROR(Annotate(device->ReserveExperts(spec).status(), capacity.gpu_experts > 0
                                                                          ? "--num-gpu-experts"
                                                                          : "--gpu-prefill-token-threshold"));
    }
    execution::ModelOptions options = model_options;
    options.kv_blocks = capacity.kv_blocks;
    RETURN_IF_ERROR(execution::Model::Load(checkpoint, config, options, *device, experts).status());
    return device->memory();
  };
  return PlanCapacity(request, config, choice.room(), measure);
}

absl::StatusOr<CapacityPlan> PlanServing(const ServingOptions& options) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.model));
  ASSIGN_OR_RETURN(execution::ModelOptions model_options, ModelOptionsFor(options, config));
  ASSIGN_OR_RETURN(DeviceChoice choice, DeviceChoice::Make(options));
  model_options.overlap_tokens = OverlapTokens(options, choice.gpu());
  ASSIGN_OR_RETURN(CapacityPlan plan,
                   PlanOnDevice(options.capacity, *checkpoint, config, model_options, choice));
  RETURN_IF_ERROR(FindHostShare(options.memory_reservations, plan));
  return plan;
}

}  // namespace numoe::startup
