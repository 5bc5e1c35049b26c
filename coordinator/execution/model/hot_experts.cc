#include "coordinator/execution/model/hot_experts.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/threading/thread_binding.h"
#include "common/threading/thread_pool.h"

namespace numoe::execution {
namespace {

constexpr auto kSaveInterval = std::chrono::minutes(5);
// A step that is running when a slot is emptied, and the one before it, may still use the slot's old
// contents.
constexpr int kStepsBeforeFill = 2;

absl::StatusOr<ExpertMatrices> FindExpert(const Checkpoint& checkpoint, const ModelConfig& config,
                                          LayerId layer, ExpertId expert) {
  const int hidden = config.hidden_size, width = config.moe_intermediate_size;
  const auto find = [&](const char* part, int rows, int cols) {
    return checkpoint.FindMatrix(
        fmt::format("{}model.layers.{}.mlp.experts.{}.{}", config.tensor_prefix, layer, expert, part), rows,
        cols, config);
  };
  ExpertMatrices matrices;
  ASSIGN_OR_RETURN(matrices.gate, find("gate_proj", width, hidden));
  ASSIGN_OR_RETURN(matrices.up, find("up_proj", width, hidden));
  ASSIGN_OR_RETURN(matrices.down, find("down_proj", hidden, width));
  return matrices;
}

}  // namespace

absl::StatusOr<ExpertSlotSpec> SlotSpecOf(const Checkpoint& checkpoint, const ModelConfig& config, int slots,
                                          int window) {
  NUMOE_CHECK(slots + window > 0 && slots >= 0 && window >= 0) << slots << " slots, windows of " << window;
  NUMOE_CHECK_LE(window, config.num_experts);
  ExpertSlotSpec spec{.layer_is_moe = config.layer_is_moe,
                      .experts = config.num_experts,
                      .experts_per_token = config.experts_per_token,
                      .slots = slots,
                      .window = window};
  const auto first = std::find(spec.layer_is_moe.begin(), spec.layer_is_moe.end(), true);
  if (first == spec.layer_is_moe.end()) return absl::NotFoundError("the model has no routed experts");
  const auto layer = static_cast<LayerId>(first - spec.layer_is_moe.begin());
  ASSIGN_OR_RETURN(spec.example, FindExpert(checkpoint, config, layer, 0));
  return spec;
}

absl::StatusOr<std::unique_ptr<HotExperts>> HotExperts::Create(std::unique_ptr<Model> model,
                                                               const Checkpoint& checkpoint,
                                                               ExpertSlots& slots,
                                                               const HotExpertsOptions& options) {
  auto hot = std::unique_ptr<HotExperts>(new HotExperts(std::move(model), checkpoint, slots, options));
  if (!options.heat_file.empty()) {
    const absl::Status read = hot->heat_.Load(options.heat_file);
    if (!read.ok() && !absl::IsNotFound(read)) return read;
  }
  RETURN_IF_ERROR(hot->FillAll());
  hot->thread_ = std::thread([raw = hot.get()] { raw->FillFromQueue(); });
  return hot;
}

HotExperts::HotExperts(std::unique_ptr<Model> model, const Checkpoint& checkpoint, ExpertSlots& slots,
                       const HotExpertsOptions& options)
    : model_(std::move(model)),
      checkpoint_(checkpoint),
      slots_(slots),
      options_(options),
      heat_(slots.spec().layers(), slots.spec().experts, options.half_life_s),
      counts_(static_cast<size_t>(slots.spec().layers()) * static_cast<size_t>(slots.spec().experts)) {
  NUMOE_CHECK_EQ(slots.spec().layers(), model_->config().num_layers);
  NUMOE_CHECK_EQ(slots.spec().experts, model_->config().num_experts);
  for (const bool moe : slots.spec().layer_is_moe)
    held_.emplace_back(moe ? static_cast<size_t>(slots.spec().slots) : 0, kNoExpert);
}

HotExperts::~HotExperts() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  if (options_.heat_file.empty()) return;
  if (const absl::Status saved = heat_.Save(options_.heat_file); !saved.ok())
    LogWarning("expert heat is not saved: {}", std::string(saved.message()));
}

absl::Status HotExperts::FillSlot(const ExpertSwap& swap) {
  ASSIGN_OR_RETURN(const ExpertMatrices matrices, FindExpert(checkpoint_, config(), swap.layer, swap.expert));
  return slots_.Fill(swap.layer, swap.slot, matrices);
}

// Uses all CPUs of this thread, because no request is served yet. Later fills are done one at a time, by one
// thread: an exchange pays off only over minutes, while a layer waits for the slowest thread of a worker, and
// a worker on this host may need each CPU that packs weights here.
absl::Status HotExperts::FillAll() {
  const std::vector<ExpertSwap> fills = PlanSwaps(heat_, held_);
  LogInfo("copying {} experts to the device, {} of each layer", fills.size(), slots_.spec().slots);
  ThreadPool pool({.name = "fill", .cpus = CpusOfThisThread()});
  FirstError first_error;
  pool.Run(static_cast<int>(fills.size()), [&](int i, int) {
    if (first_error.status().ok()) first_error.Note(FillSlot(fills[static_cast<size_t>(i)]));
  });
  RETURN_IF_ERROR(first_error.status());
  for (const ExpertSwap& fill : fills) {
    slots_.Assign(fill.layer, fill.slot, fill.expert);
    held_[static_cast<size_t>(fill.layer)][static_cast<size_t>(fill.slot)] = fill.expert;
  }
  return absl::OkStatus();
}

absl::StatusOr<StepLogits> HotExperts::Forward(const StepBatch& batch) {
  BetweenSteps();
  return model_->Forward(batch);
}

void HotExperts::BetweenSteps() {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - counted_at_).count();
  if (seconds >= options_.interval_s) {
    counted_at_ = now;
    TakeCounts(seconds);
    if (options_.exchange && planned_.empty()) {
      planned_ = PlanSwaps(heat_, held_);
      std::reverse(planned_.begin(), planned_.end());
    }
  }
  if (!options_.heat_file.empty() && now - saved_at_ > kSaveInterval) {
    saved_at_ = now;
    (void)heat_.Save(options_.heat_file);  // the destructor logs the error if it still fails then
  }
  AdvanceExchange();
}

void HotExperts::TakeCounts(double seconds) {
  if (const absl::Status taken = slots_.TakeCounts(absl::MakeSpan(counts_)); !taken.ok())
    return;  // the step reports the error
  heat_.Add(counts_, seconds);
  const auto experts = static_cast<size_t>(slots_.spec().experts);
  for (size_t layer = 0; layer < held_.size(); ++layer) {
    uint64_t all = 0, held = 0;
    for (size_t e = 0; e < experts; ++e) all += counts_[layer * experts + e];
    for (const ExpertId expert : held_[layer]) {
      if (expert != kNoExpert) held += counts_[layer * experts + static_cast<size_t>(expert)];
    }
    NUMOE_DCHECK_LE(held, all);
    report_.on_device += held;
    report_.on_workers += all - held;
  }
  if (options_.observe) options_.observe(report_);
  report_ = {};
}

void HotExperts::AdvanceExchange() {
  if (!exchange_) {
    if (planned_.empty()) return;
    exchange_ = Exchange{.swap = planned_.back()};
    planned_.pop_back();
    const ExpertSwap& swap = exchange_->swap;
    held_[static_cast<size_t>(swap.layer)][static_cast<size_t>(swap.slot)] = kNoExpert;
    slots_.Assign(swap.layer, swap.slot, kNoExpert);
    return;
  }
  if (!exchange_->filling) {
    if (++exchange_->steps < kStepsBeforeFill) return;
    exchange_->filling = true;
    const MutexLock lock(mutex_);
    NUMOE_CHECK(!wanted_ && !filled_) << "one exchange at a time";
    wanted_ = exchange_->swap;
    changed_.NotifyAll();
    return;
  }
  std::optional<absl::Status> filled;
  {
    const MutexLock lock(mutex_);
    filled.swap(filled_);
  }
  if (!filled) return;
  const ExpertSwap swap = exchange_->swap;
  exchange_.reset();
  if (!filled->ok()) {
    LogWarning("expert {} of layer {} stays with the workers: {}", swap.expert, swap.layer,
               std::string(filled->message()));
    return;
  }
  ExpertId& held = held_[static_cast<size_t>(swap.layer)][static_cast<size_t>(swap.slot)];
  NUMOE_CHECK_EQ(held, kNoExpert) << "the slot was emptied for this one";
  held = swap.expert;
  slots_.Assign(swap.layer, swap.slot, swap.expert);
  ++report_.swaps;
}

void HotExperts::FillFromQueue() {
  pthread_setname_np(pthread_self(), "hot-experts");
  MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && !wanted_) changed_.Wait(mutex_);
    if (stop_) return;
    const ExpertSwap swap = *wanted_;
    wanted_.reset();
    lock.Unlock();
    absl::Status status = FillSlot(swap);
    lock.Lock();
    filled_ = std::move(status);
  }
}

}  // namespace numoe::execution
