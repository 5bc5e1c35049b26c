// Request fields of other engines that would change the answer and that this server does not implement.
//
// One table for all dialects: each field with the values that mean "off", which are accepted, and the reason
// why any other value gets a 400. Parameters of a feature that is off (mirostat_tau) are not in it, and
// neither are fields that no engine defines: these are ignored, and the latter are named (ignored_fields.h).
// Pure function.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

struct RefusedField {
  const char* name;
  std::string_view off;  // a JSON array of values; null, false, "", [] and {} mean "off" for all fields
  const char* reason;
};

const std::vector<RefusedField>& RefusedFields();

/// The first refused field of a request, also in `sampling_params` (SGLang) and `messages[].tools`.
/// REQUIRES: `body` is an object.
std::optional<net::ApiError> FindRefusedField(const nlohmann::ordered_json& body);

}  // namespace numoe::serving
