// HotExperts: a model whose device holds the experts that are used most, and exchanges them while it serves.
//
// It wraps a model and does its work between two steps. Once a second it reads the device's counts and plans
// exchanges (hot_plan.h). It exchanges one expert at a time: it empties the slot, so that the workers compute
// the old expert again; when no step can use the slot any more, a thread fills it from the checkpoint; then
// the slot is assigned to the expert. No step waits for that. The heat is saved to a file every few minutes
// and at the end, and read at the start. The engine thread calls Forward, which calls the observer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/expert_slots.h"
#include "coordinator/execution/model/hot_plan.h"
#include "coordinator/execution/model/model.h"

namespace numoe::execution {

struct HotExpertsReport {
  uint64_t on_device = 0;   // selections since the last report of experts that were in slots
  uint64_t on_workers = 0;  // the same of all other experts
  uint64_t swaps = 0;
};

struct HotExpertsOptions {
  std::string heat_file;  // no file if empty
  double half_life_s = 600;
  double interval_s = 1;
  bool exchange = true;  // if false, the slots keep their first experts, so that an answer does not depend on
                         // other requests
  std::function<void(const HotExpertsReport&)> observe;  // may be empty
};

/// Returns what to reserve for the checkpoint: `slots` slots in each MoE layer, and windows of `window`
/// experts. NOT_FOUND if the checkpoint has no routed experts.
absl::StatusOr<ExpertSlotSpec> SlotSpecOf(const Checkpoint& checkpoint, const ModelConfig& config, int slots,
                                          int window = 0);

class HotExperts final : public Model {
 public:
  /// Fills all slots before it returns, with the hottest experts of the heat file, or without one with the
  /// first experts.
  static absl::StatusOr<std::unique_ptr<HotExperts>> Create(std::unique_ptr<Model> model,
                                                            const Checkpoint& checkpoint, ExpertSlots& slots,
                                                            const HotExpertsOptions& options);
  ~HotExperts() override;

  absl::StatusOr<StepLogits> Forward(const StepBatch& batch) override;
  bool CanDraw() const override { return model_->CanDraw(); }
  const ModelConfig& config() const override { return model_->config(); }
  int64_t KvBytesPerToken() const override { return model_->KvBytesPerToken(); }

 private:
  using Clock = std::chrono::steady_clock;
  // The exchange that is in progress; there is at most one.
  struct Exchange {
    ExpertSwap swap;
    int steps = 0;         // number of steps that began since the slot was emptied
    bool filling = false;  // whether the thread has been asked to fill the slot
  };

  HotExperts(std::unique_ptr<Model> model, const Checkpoint& checkpoint, ExpertSlots& slots,
             const HotExpertsOptions& options);
  absl::Status FillAll();
  absl::Status FillSlot(const ExpertSwap& swap);
  void BetweenSteps();
  void TakeCounts(double seconds);
  void AdvanceExchange();
  void FillFromQueue();

  const std::unique_ptr<Model> model_;
  const Checkpoint& checkpoint_;
  ExpertSlots& slots_;
  const HotExpertsOptions options_;
  ExpertHeat heat_;
  std::vector<std::vector<ExpertId>> held_;  // [layers][slots]
  std::vector<uint32_t> counts_;
  std::vector<ExpertSwap> planned_;  // best last
  std::optional<Exchange> exchange_;
  HotExpertsReport report_;
  Clock::time_point counted_at_ = Clock::now();
  Clock::time_point saved_at_ = Clock::now();

  Mutex mutex_;
  CondVar changed_;
  std::optional<ExpertSwap> wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> filled_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::execution
