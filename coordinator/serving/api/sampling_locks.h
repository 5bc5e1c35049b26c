// SamplingLocks: sampling parameters that the server holds, because the model was made for them.
//
// "temperature=1.0" holds one value, "temperature=0.6..1.0" a range, "thinking:temperature=1.0" a value for
// conversations in which the model may think, "instant:temperature=0.6" for those that switch thinking off. A
// request that asks for something else is refused. One that says nothing gets the value, or the model's
// default as far as the range has it. Where a mode has a lock of its own, the other one for the same
// parameter does not count. Texts without messages have no mode. Values; pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

struct SamplingLock {
  enum class Mode : uint8_t { kAny, kThinking, kInstant };
  Mode mode = Mode::kAny;
  std::string name;
  double low = 0;
  double high = 0;
};
using SamplingLocks = std::vector<SamplingLock>;

/// From the texts of --lock-sampling. INVALID_ARGUMENT says what was found and gives an example.
absl::StatusOr<SamplingLocks> ParseSamplingLocks(const std::vector<std::string>& texts);
/// Writes what is held into the body, before it is read. `unasked`: whether a conversation that says nothing
/// of thinking is one in which the model may think. 400: it asks for something else.
std::optional<net::ApiError> ApplySamplingLocks(const SamplingLocks& locks,
                                                const GenerationDefaults& defaults,
                                                nlohmann::ordered_json& body,
                                                UnaskedThinking unasked = UnaskedThinking::kAsTrained);

}  // namespace numoe::serving
