// OpenAI chat messages, checked and in the form that templates expect.
//
// Content parts of type text are joined, and so are an assistant's refusals; null content stays null; a tool
// call's arguments, a JSON string on the wire, become the object they spell, because templates print or walk
// them. Errors name the place
// ("messages[2].content"). Pure function.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace numoe::text {

absl::StatusOr<nlohmann::ordered_json> NormaliseMessages(const nlohmann::ordered_json& messages);

}  // namespace numoe::text
