// StepClock: measures how the time of a model step is divided among the parts of the model.
//
// The model calls Enter when another part begins; at the step's end every part that ran is reported once,
// with its total time in seconds. On a device that only enqueues work these are the times of enqueuing, and
// the waiting time is attributed to the part that reads results. Used by the engine thread; does nothing
// without an observer.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace numoe::execution {

enum class StepPart : uint8_t {
  kEmbed,
  kNorm,             // norms of the residual stream
  kAttentionLinear,  // projections into and out of attention
  kAttentionRotary,  // norms of heads and latents, rotation, writing the cache
  kAttentionCore,    // scores, softmax, weighted values
  kGate,
  kDense,    // dense MLPs and shared experts
  kExperts,  // the time that the model waits for routed experts
  kHead,
};
inline constexpr std::string_view kStepPartNames[] = {
    "embed",   "norm", "attention_linear", "attention_rotary", "attention_core", "gate", "dense",
    "experts", "head"};
inline constexpr size_t kStepParts = std::size(kStepPartNames);
static_assert(kStepParts == static_cast<size_t>(StepPart::kHead) + 1);

class StepClock {
 public:
  using Observer = std::function<void(StepPart part, double seconds)>;

  explicit StepClock(Observer observer) : observer_(std::move(observer)) {}

  /// Ends the current part, if any; `part` runs from now on.
  void Enter(StepPart part) {
    if (!observer_) return;
    const Clock::time_point now = Clock::now();
    Close(now);
    current_ = static_cast<size_t>(part);
    entered_ = now;
  }
  /// Ends the step and reports its parts; a failed step reports the parts that ran.
  void EndStep() {
    if (!observer_) return;
    Close(Clock::now());
    for (size_t p = 0; p < kStepParts; ++p) {
      if (ran_[p]) observer_(static_cast<StepPart>(p), std::chrono::duration<double>(spent_[p]).count());
    }
    spent_ = {};
    ran_ = {};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kNone = kStepParts;

  void Close(Clock::time_point now) {
    if (current_ == kNone) return;
    spent_[current_] += now - entered_;
    ran_[current_] = true;
    current_ = kNone;
  }

  const Observer observer_;
  size_t current_ = kNone;
  Clock::time_point entered_;
  std::array<Clock::duration, kStepParts> spent_ = {};
  std::array<bool, kStepParts> ran_ = {};
};

}  // namespace numoe::execution
