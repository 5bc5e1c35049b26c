// The fields that ask for structured output; a request may use one of them.
//
// OpenAI's response_format, vLLM's structured_outputs and its former guided_*, SGLang's json_schema, regex
// and ebnf, llama.cpp's grammar: each of them sets the request's `structure`. Pure functions.
#pragma once

#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

void ReadStructure(JsonFields& in, GenerationRequest& out);
/// Reads {"type": "text" | "json_object" | "json_schema" | "structural_tag" | "grammar", ...}, the value of
/// the field `param`. The schema is in `json_schema.schema` with a name (chat), or next to the type
/// (text.format of the responses API, llama.cpp), where a json_object may have one as well. The request's
/// structure_param becomes the place that the answer must match.
void ReadFormat(JsonFields& in, const char* param, const nlohmann::ordered_json& format,
                GenerationRequest& out);

}  // namespace numoe::serving
