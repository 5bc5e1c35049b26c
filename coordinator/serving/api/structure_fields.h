// The ways of asking for structured output, of which a request may use one.
//
// OpenAI's response_format, vLLM's structured_outputs and its former guided_*, SGLang's json_schema, regex
// and ebnf, llama.cpp's grammar: all of them become the request's `structure`. Pure functions.
#pragma once

#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

void ReadStructure(JsonFields& in, GenerationRequest& out);
/// {"type": "text" | "json_object" | "json_schema" | "structural_tag" | "grammar", ...}, named `param`; the
/// schema is in `json_schema.schema` with a name (chat), or beside the type (the responses API's text.format,
/// llama.cpp), where a json_object may have one as well. The request's structure_param becomes the place of
/// what the answer must match.
void ReadFormat(JsonFields& in, const char* param, const nlohmann::ordered_json& format,
                GenerationRequest& out);

}  // namespace numoe::serving
