#include "common/base/unused_flags.h"

#include <fmt/format.h>

#include "common/base/check.h"

namespace numoe {

UnusedFlags::UnusedFlags(const Flags& flags) : flags_(flags) {
  for (const std::string& variable : flags.misspelled_variables())
    notes_.push_back("the environment has " + variable);
}

void UnusedFlags::Add(std::string_view flag, std::string_view why) {
  NUMOE_CHECK(!why.empty() && why.back() != '.') << flag;
  if (!flags_.Given(flag)) return;
  if (flags_.Typed(flag)) {
    refusal_.Update(absl::InvalidArgumentError(fmt::format("--{} {}", flag, why)));
  } else {
    notes_.push_back(fmt::format("--{}, which the environment or the file of --config sets, {}", flag, why));
  }
}

}  // namespace numoe
