#include "coordinator/text/chat/jinja_rendering.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"

namespace numoe::text::jinja {

Value Rendering::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("line {}: {}", line_, what));
  return Undefined{};
}

bool Rendering::Charge(int64_t steps) {
  NUMOE_DCHECK_GE(steps, 0);
  steps_ += steps;
  if (steps_ > limits::kTemplateStepsMax) Fail(fmt::format("more than {} steps", limits::kTemplateStepsMax));
  return !failed();
}

bool Rendering::Room(size_t bytes) {
  if (bytes <= limits::kTemplateOutputBytesMax) return ChargeText(bytes);
  Fail(fmt::format("more than {} bytes of text", limits::kTemplateOutputBytesMax));
  return false;
}

}  // namespace numoe::text::jinja
