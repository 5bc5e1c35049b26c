#include "coordinator/engine/scheduler/step_pacer.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::engine {
namespace {

double Blend(double old, double found, double share) {
  return old == 0 ? found : old + share * (found - old);
}

}  // namespace

void StepPacer::Record(int decodes, int prompt_tokens, double seconds) {
  NUMOE_CHECK(decodes >= 0 && prompt_tokens >= 0 && decodes + prompt_tokens > 0);
  if (decodes == 0) return;
  if (prompt_tokens == 0) {
    plain_seconds_ = Blend(plain_seconds_, seconds, 0.2);
    mixed_steps_ = 0;
    return;
  }
  ++mixed_steps_;
  if (plain_seconds_ == 0) return;
  // Never 0, which means unknown. A mixed step that took no longer than a plain one was an exception.
  const double cost = std::max(seconds - plain_seconds_, 0.01 * plain_seconds_) / prompt_tokens;
  token_seconds_ = Blend(token_seconds_, cost, cost > token_seconds_ ? 0.5 : 0.1);
}

int StepPacer::PromptTokens(int decodes, int most) const {
  NUMOE_CHECK(decodes >= 0 && most >= 0);
  if (decodes == 0 || stretch_max_ == 0) return most;
  if (plain_seconds_ == 0 || mixed_steps_ >= kMixedStepsMax) return 0;
  if (token_seconds_ == 0) return std::min(kFirstTokens, most);
  const double fits = kAim * (stretch_max_ - 1) * plain_seconds_ / token_seconds_;
  return std::min(most, static_cast<int>(std::clamp(fits, double{kLeastTokens}, double{1 << 20})));
}

}  // namespace numoe::engine
