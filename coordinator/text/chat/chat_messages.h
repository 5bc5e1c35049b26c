// Checks OpenAI chat messages and translates them into the form that templates expect.
//
// Content parts of type text are joined, and so are an assistant's refusals; null content stays null. A tool
// call's arguments, a JSON string in the request, become the object in that string, because templates print
// or walk them. Errors name the place ("messages[2].content"). A pure function.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace numoe::text {

absl::StatusOr<nlohmann::ordered_json> NormaliseMessages(const nlohmann::ordered_json& messages);

}  // namespace numoe::text
