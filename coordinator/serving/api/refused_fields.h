// Request fields of other engines that would change the answer, and that this server does not obey.
//
// One table for all dialects: each field with the values that mean "off", which are accepted, and the reason
// why anything else is a 400. What only shapes a switched-off feature (mirostat_tau) is not in it, nor what
// nobody defines: both are ignored, as by every engine. Pure function.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

struct RefusedField {
  const char* name;
  std::string_view off;  // a JSON array of values; null, false, "", [] and {} mean off for all fields
  const char* reason;
};

const std::vector<RefusedField>& RefusedFields();

/// The first field of a request that is refused, also in `sampling_params` (SGLang) and `messages[].tools`.
/// REQUIRES: `body` is an object.
std::optional<net::ApiError> FindRefusedField(const nlohmann::ordered_json& body);

}  // namespace numoe::serving
