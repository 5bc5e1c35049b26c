// What /v1/responses is asked, read from JSON and checked.
//
// Source: OpenAI's API description 2.3.0. Items of the input become the messages that templates know:
// reasoning, an assistant's message and the calls after it are one. Functions are the only tools; the
// built-in ones are refused by name. Unknown fields are accepted, and those of items are not kept. Pure
// functions, except that `history` is called for earlier answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// What the answer repeats of the request, and what stays for later ones.
struct ResponsesFields {
  bool store = true;
  bool background = false;
  nlohmann::ordered_json input = nlohmann::ordered_json::array();  // items, the conversation's before first
  nlohmann::ordered_json repeated = nlohmann::ordered_json::object();
};

/// The items that a response was asked and answered with; none: it is not there.
using ResponseHistory = std::function<std::optional<nlohmann::ordered_json>(const std::string& id)>;

std::variant<GenerationRequest, net::ApiError> ReadResponsesRequest(const nlohmann::ordered_json& body,
                                                                    const GenerationDefaults& defaults,
                                                                    const ResponseHistory& history,
                                                                    ResponsesFields& fields);

}  // namespace numoe::serving
