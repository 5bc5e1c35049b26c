// SamplingLocks: sampling parameters that the server fixes, because the model was made for them.
//
// "temperature=1.0" fixes a value, "temperature=0.6..1.0" a range, "thinking:temperature=1.0" a value for
// conversations in which the model may think, "instant:temperature=0.6" for conversations without thinking. A
// request that asks for another value is refused. A request without the parameter gets the fixed value, or
// the model's default if the range contains it. If a mode has its own lock, the general lock of the same
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

/// Parses the texts of --lock-sampling. INVALID_ARGUMENT says what was found and gives an example.
absl::StatusOr<SamplingLocks> ParseSamplingLocks(const std::vector<std::string>& texts);
/// Writes the fixed values into the body before it is read. `unasked` says whether the model may think in a
/// conversation that does not mention thinking. 400: the request asks for another value.
std::optional<net::ApiError> ApplySamplingLocks(const SamplingLocks& locks,
                                                const GenerationDefaults& defaults,
                                                nlohmann::ordered_json& body,
                                                UnaskedThinking unasked = UnaskedThinking::kAsTrained);

}  // namespace numoe::serving
