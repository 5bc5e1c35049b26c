// Reads and checks the requests of SGLang's /generate.
//
// Source: SGLang 0.5's GenerateReqInput: text or input_ids, one or a list; sampling_params for all of them,
// or a list with the same value for each. With max_new_tokens 0 the prompt is computed and the answer is
// empty. Unknown fields are named in the request's ignored_fields; a wrong type or value is an ApiError that
// names the parameter. Pure functions.
#pragma once

#include <variant>

#include "common/weights/model_config.h"
#include "coordinator/net/http/api_error.h"
#include "coordinator/serving/api/generation_request.h"

namespace numoe::serving {

std::variant<GenerationRequest, net::ApiError> ReadNativeRequest(const nlohmann::ordered_json& body,
                                                                 const GenerationDefaults& defaults);

}  // namespace numoe::serving
