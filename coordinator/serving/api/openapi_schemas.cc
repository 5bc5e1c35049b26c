// The objects of the main routes as JSON Schemas, and the table of the routes that use them.
#include "coordinator/serving/api/openapi.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr char kShared[] = R"json({
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
    "required": ["message", "type", "param", "code"], "properties": {"message": {"type": "string"},
      "type": {"type": "string"}, "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
  "Sampling": {"type": "object", "properties": {
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1}, "top_k": {"type": "integer", "minimum": -1},
    "min_p": {"type": "number", "minimum": 0, "maximum": 1},
    "seed": {"type": ["integer", "null"], "minimum": -9223372036854775808, "maximum": 9223372036854775807},
    "frequency_penalty": {"type": "number"}, "presence_penalty": {"type": "number"},
    "repetition_penalty": {"type": "number"}, "logit_bias": {"type": ["object", "null"]},
    "allowed_token_ids": {"type": ["array", "null"], "items": {"type": "integer"}},
    "min_tokens": {"type": "integer"}, "ignore_eos": {"type": "boolean"},
    "stop": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    "stop_token_ids": {"type": ["array", "null"], "items": {"type": "integer"}},
    "stop_regex": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    "bad_words": {"type": ["array", "null"], "items": {"type": "string"}},
    "thinking_token_budget": {"type": ["integer", "null"], "minimum": -1},
    "truncate_prompt_tokens": {"type": ["integer", "null"], "minimum": -1},
    "truncation_side": {"enum": ["left", "right", null]},
    "skip_special_tokens": {"type": "boolean"}, "n": {"type": "integer", "minimum": 1}}},
  "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"], "properties": {
    "prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"},
    "total_tokens": {"type": "integer"}, "prompt_tokens_details": {"type": "object"},
    "completion_tokens_details": {"type": "object"}}},
  "Models": {"type": "object", "required": ["object", "data"], "properties": {"object": {"const": "list"},
    "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
  "Model": {"type": "object", "required": ["id", "object"], "properties": {"id": {"type": "string"},
    "object": {"const": "model"}, "max_model_len": {"type": "integer"}}},
  "Health": {"type": "object", "required": ["status", "detail"], "properties": {
    "status": {"enum": ["starting", "ready", "degraded", "stuck", "draining"]}, "detail": {"type": "string"}}},
  "Liveness": {"type": "object", "required": ["status", "detail"], "properties": {
    "status": {"enum": ["alive", "stuck"]}, "detail": {"type": "string"}}},
  "TokenizeRequest": {"type": "object", "properties": {"prompt": {"type": "string"},
    "messages": {"type": "array"}, "tools": {"type": "array"}, "return_token_strs": {"type": "boolean"},
    "add_special_tokens": {"type": ["boolean", "null"]}}},
  "Tokens": {"type": "object", "required": ["count", "tokens"], "properties": {"count": {"type": "integer"},
    "max_model_len": {"type": "integer"}, "tokens": {"type": "array", "items": {"type": "integer"}}}},
  "DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {
    "tokens": {"type": "array", "items": {"type": "integer"}}}},
  "Text": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}}
})json";

constexpr char kOpenAi[] = R"json({
  "ChatRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}], "type": "object",
    "required": ["messages"], "properties": {"model": {"type": "string"},
    "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role"]}},
    "tools": {"type": ["array", "null"]}, "tool_choice": {}, "parallel_tool_calls": {"type": "boolean"},
    "max_tokens": {"type": ["integer", "null"]}, "max_completion_tokens": {"type": ["integer", "null"]},
    "response_format": {"type": ["object", "null"]}, "logprobs": {"type": ["boolean", "null"]},
    "top_logprobs": {"type": ["integer", "null"]}, "reasoning_effort": {"type": ["string", "null"]},
    "thinking": {"type": ["object", "null"]}, "enable_thinking": {"type": ["boolean", "null"]},
    "chat_template_kwargs": {"type": ["object", "null"]}, "timeout": {"type": ["number", "null"]},
    "grammar": {"type": ["string", "null"]}, "documents": {"type": ["array", "null"]},
    "include_reasoning": {"type": ["boolean", "null"]}, "separate_reasoning": {"type": ["boolean", "null"]},
    "reasoning_format": {"enum": ["auto", "deepseek", "none", null]},
    "continue_final_message": {"type": ["boolean", "null"]}, "echo": {"type": ["boolean", "null"]},
    "return_tokens_as_token_ids": {"type": ["boolean", "null"]},
    "stream": {"type": ["boolean", "null"]}, "stream_options": {"type": ["object", "null"]}}},
  "ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"],
    "properties": {"id": {"type": "string"}, "object": {"const": "chat.completion"},
    "created": {"type": "integer"}, "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "choices": {"type": "array", "items": {
      "type": "object", "required": ["index", "message", "finish_reason"], "properties": {
        "index": {"type": "integer"}, "message": {"type": "object"}, "logprobs": {"type": ["object", "null"]},
        "finish_reason": {"enum": ["stop", "length", "tool_calls", "abort"]}}}},
    "usage": {"$ref": "#/components/schemas/Usage"}}},
  "ChatChunk": {"type": "object", "required": ["id", "object", "choices"], "properties": {
    "object": {"const": "chat.completion.chunk"}, "choices": {"type": "array"}}},
  "TextRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}], "type": "object",
    "required": ["prompt"], "properties": {"model": {"type": "string"},
    "prompt": {"type": ["string", "array"]}, "max_tokens": {"type": ["integer", "null"]},
    "echo": {"type": ["boolean", "null"]}, "logprobs": {"type": ["integer", "null"]},
    "add_special_tokens": {"type": ["boolean", "null"]},
    "grammar": {"type": ["string", "null"]}, "return_tokens_as_token_ids": {"type": ["boolean", "null"]},
    "best_of": {"type": ["integer", "null"]}, "stream": {"type": ["boolean", "null"]}}},
  "TextCompletion": {"type": "object", "required": ["id", "object", "choices"], "properties": {
    "object": {"const": "text_completion"}, "choices": {"type": "array"},
    "usage": {"anyOf": [{"$ref": "#/components/schemas/Usage"}, {"type": "null"}]}}},
  "ResponseRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}], "type": "object",
    "required": ["input"], "properties": {"model": {"type": "string"}, "input": {"type": ["string", "array"]},
    "instructions": {"type": ["string", "null"]}, "previous_response_id": {"type": ["string", "null"]},
    "store": {"type": ["boolean", "null"]}, "background": {"type": ["boolean", "null"]},
    "max_output_tokens": {"type": ["integer", "null"]}, "tools": {"type": ["array", "null"]}, "tool_choice": {},
    "text": {"type": ["object", "null"]}, "reasoning": {"type": ["object", "null"]},
    "metadata": {"type": ["object", "null"]}, "stream": {"type": ["boolean", "null"]},
    "truncation": {"enum": ["auto", "disabled", null]}}},
  "Response": {"type": "object", "required": ["id", "object", "created_at", "status", "model", "output"],
    "properties": {"id": {"type": "string"}, "object": {"const": "response"},
    "created_at": {"type": "integer"}, "model": {"type": "string"},
    "status": {"enum": ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]},
    "output": {"type": "array", "items": {"type": "object", "required": ["id", "type", "status"],
      "properties": {"type": {"enum": ["message", "reasoning", "function_call"]}}}},
    "error": {"type": ["object", "null"]}, "incomplete_details": {"type": ["object", "null"]},
    "usage": {"type": ["object", "null"]}}},
  "ResponseEvent": {"type": "object", "required": ["type", "sequence_number"], "properties": {
    "type": {"type": "string"}, "sequence_number": {"type": "integer"}}},
  "DeletedResponse": {"type": "object", "required": ["id", "deleted"], "properties": {
    "id": {"type": "string"}, "object": {"const": "response"}, "deleted": {"const": true}}},
  "ResponseItems": {"type": "object", "required": ["object", "data", "has_more"], "properties": {
    "object": {"const": "list"}, "data": {"type": "array"}, "has_more": {"type": "boolean"}}}
})json";

constexpr char kAnthropic[] = R"json({
  "AnthropicError": {"type": "object", "required": ["type", "error"], "properties": {"type": {"const": "error"},
    "error": {"type": "object", "required": ["type", "message"], "properties": {
      "type": {"type": "string"}, "message": {"type": "string"}}}}},
  "MessagesRequest": {"type": "object", "required": ["max_tokens", "messages"], "properties": {
    "model": {"type": "string"}, "max_tokens": {"type": "integer", "minimum": 1},
    "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role", "content"],
      "properties": {"role": {"enum": ["user", "assistant", "system"]},
        "content": {"type": ["string", "array"]}}}},
    "system": {"type": ["string", "array"]}, "stop_sequences": {"type": "array", "items": {"type": "string"}},
    "temperature": {"type": "number"}, "top_p": {"type": "number"}, "top_k": {"type": "integer"},
    "tools": {"type": "array"}, "tool_choice": {"type": "object"}, "thinking": {"type": "object"},
    "output_config": {"type": "object"}, "output_format": {"type": "object"}, "stream": {"type": "boolean"}}},
  "Message": {"type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "usage"],
    "properties": {"id": {"type": "string"}, "type": {"const": "message"}, "role": {"const": "assistant"},
    "content": {"type": "array", "items": {"type": "object", "required": ["type"], "properties": {
      "type": {"enum": ["text", "thinking", "tool_use"]}}}},
    "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use", null]},
    "stop_sequence": {"type": ["string", "null"]},
    "usage": {"type": "object", "required": ["input_tokens", "output_tokens"]}}},
  "MessageEvent": {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["message_start",
    "ping", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "error"]}}},
  "TokenCountRequest": {"type": "object", "required": ["messages"], "properties": {"model": {"type": "string"},
    "messages": {"type": "array", "minItems": 1}, "system": {"type": ["string", "array"]},
    "tools": {"type": "array"}, "tool_choice": {"type": "object"}, "thinking": {"type": "object"}}},
  "TokenCount": {"type": "object", "required": ["input_tokens"], "properties": {
    "input_tokens": {"type": "integer"}}}
})json";

constexpr char kNative[] = R"json({
  "GenerateRequest": {"type": "object", "properties": {"text": {"type": ["string", "array"]},
    "input_ids": {"type": "array"}, "sampling_params": {"anyOf": [{"type": "null"},
      {"allOf": [{"$ref": "#/components/schemas/Sampling"}],
       "properties": {"max_new_tokens": {"type": "integer", "default": 128}}}]},
    "stream": {"type": "boolean"}, "rid": {"type": ["string", "null"]},
    "return_logprob": {"type": ["boolean", "null"]}, "logprob_start_len": {"type": ["integer", "null"]},
    "top_logprobs_num": {"type": ["integer", "null"]}}},
  "Generated": {"type": "object", "required": ["text", "output_ids", "meta_info"], "properties": {
    "text": {"type": "string"}, "output_ids": {"type": "array", "items": {"type": "integer"}},
    "index": {"type": "integer"}, "meta_info": {"type": "object",
      "required": ["id", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens"]}}},
  "GeneratedOneOrMore": {"anyOf": [{"$ref": "#/components/schemas/Generated"},
    {"type": "array", "items": {"$ref": "#/components/schemas/Generated"}}]}
})json";

}  // namespace

const std::vector<RouteSchemas>& DescribedRoutes() {
  static const std::vector<RouteSchemas> routes = {
      {"POST", "/v1/chat/completions", "ChatRequest", "ChatCompletion", "ChatChunk"},
      {"POST", "/v1/completions", "TextRequest", "TextCompletion", "TextCompletion"},
      {"POST", "/v1/responses", "ResponseRequest", "Response", "ResponseEvent"},
      {"POST", "/v1/responses/input_tokens", "ResponseRequest", "TokenCount", nullptr},
      {"GET", "/v1/responses/{}", nullptr, "Response", nullptr},
      {"DELETE", "/v1/responses/{}", nullptr, "DeletedResponse", nullptr},
      {"POST", "/v1/responses/{}/cancel", nullptr, "Response", nullptr},
      {"GET", "/v1/responses/{}/input_items", nullptr, "ResponseItems", nullptr},
      {"POST", "/v1/messages", "MessagesRequest", "Message", "MessageEvent"},
      {"POST", "/v1/messages/count_tokens", "TokenCountRequest", "TokenCount", nullptr},
      {"POST", "/generate", "GenerateRequest", "GeneratedOneOrMore", "Generated"},
      {"GET", "/v1/models", nullptr, "Models", nullptr},
      {"GET", "/v1/models/{}", nullptr, "Model", nullptr},
      {"GET", "/v1/models/{}/{}", nullptr, "Model", nullptr},
      {"GET", "/health", nullptr, "Health", nullptr},
      {"GET", "/live", nullptr, "Liveness", nullptr},
      {"POST", "/tokenize", "TokenizeRequest", "Tokens", nullptr},
      {"POST", "/v1/tokenize", "TokenizeRequest", "Tokens", nullptr},
      {"POST", "/detokenize", "DetokenizeRequest", "Text", nullptr},
      {"POST", "/v1/detokenize", "DetokenizeRequest", "Text", nullptr},
      {"POST", "/apply-template", "TokenizeRequest", "Text", nullptr}};
  return routes;
}

ordered_json OpenApiSchemas() {
  ordered_json schemas = ordered_json::object();
  for (const char* part : {kShared, kOpenAi, kAnthropic, kNative}) schemas.update(ordered_json::parse(part));
  return schemas;
}

}  // namespace numoe::serving
