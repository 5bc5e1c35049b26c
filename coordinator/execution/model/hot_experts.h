// HotExperts: a model whose device holds the experts that are used most, exchanged while it serves.
//
// Stands before the model and does its work between two steps: takes the device's counts once a second, plans
// (hot_plan.h), and lets one expert at a time change: its slot is emptied, which sends that expert to the
// workers again; when no step can still be using the slot, a thread fills it from the checkpoint; then it
// counts. No step waits for it. The heat is written to a file at the end and now and then, and read at the
// start. Forward and its observer are the engine thread's.
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
  uint64_t on_workers = 0;  // and of the others
  uint64_t swaps = 0;
};

struct HotExpertsOptions {
  std::string heat_file;  // empty: none
  double half_life_s = 600;
  double interval_s = 1;
  bool exchange =
      true;  // false: the slots stay as they are filled, so that an answer does not depend on others
  std::function<void(const HotExpertsReport&)> observe;  // may be empty
};

/// What ExpertSlots are reserved for: `slots` of each layer, and windows of `window`. NOT_FOUND: the
/// checkpoint has no routed experts.
absl::StatusOr<ExpertSlotSpec> SlotSpecOf(const Checkpoint& checkpoint, const ModelConfig& config, int slots,
                                          int window = 0);

class HotExperts final : public Model {
 public:
  /// Fills all slots with the hottest experts of the heat file, or the first ones, before it returns.
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
  // The one exchange under way.
  struct Exchange {
    ExpertSwap swap;
    int steps = 0;         // begun since the slot was emptied
    bool filling = false;  // handed to the thread
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
