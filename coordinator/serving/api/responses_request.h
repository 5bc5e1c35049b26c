// Reads and checks the requests of /v1/responses.
//
// Source: OpenAI's API description 2.3.0. Items of the input become the messages that templates know:
// reasoning, an assistant's message and the calls after it become one message. Tools can only be functions;
// the built-in ones are refused by name. Unknown fields are named in the request's ignored_fields; unknown
// fields of items are accepted and not stored. Pure functions, except that `history` is called for earlier
// answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// What the answer repeats of the request, and what is stored for later requests.
struct ResponsesFields {
  bool store = true;
  bool background = false;
  nlohmann::ordered_json input = nlohmann::ordered_json::array();  // items, those of earlier answers first
  nlohmann::ordered_json repeated = nlohmann::ordered_json::object();
};

/// Returns the items of a response's input and output; nullopt if it does not exist.
using ResponseHistory = std::function<std::optional<nlohmann::ordered_json>(const std::string& id)>;

std::variant<GenerationRequest, net::ApiError> ReadResponsesRequest(const nlohmann::ordered_json& body,
                                                                    const GenerationDefaults& defaults,
                                                                    const ResponseHistory& history,
                                                                    ResponsesFields& fields);

}  // namespace numoe::serving
