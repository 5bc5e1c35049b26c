// Preparation: makes the engine's input from a request's body; the slow part of a request before its first
// token.
//
// Reads and checks the JSON, renders the template, tokenises, compiles the grammar. It changes nothing except
// the grammar cache. Any thread except a connection's may call it, because megabytes of prompt take a while.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/text_segment.h"
#include "coordinator/execution/sampling/token_constraint.h"
#include "coordinator/net/http/api_error.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_request.h"

namespace numoe::serving {

struct Prepared {
  GenerationRequest request;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::unique_ptr<execution::TokenConstraint>> constraints;  // [choice]; null allows any text
};

using RequestReader = std::function<std::variant<GenerationRequest, net::ApiError>(
    const nlohmann::ordered_json&, const GenerationDefaults&)>;

/// Returns the body's JSON object; 400 if it is something else.
std::variant<nlohmann::ordered_json, net::ApiError> ReadBody(std::string_view body);
std::variant<Prepared, net::ApiError> Prepare(std::string_view body, const RequestReader& read,
                                              const ApiDeps& deps,
                                              UnaskedThinking unasked = UnaskedThinking::kAsTrained);
/// Returns 404 if the request names a model that is not served.
std::optional<net::ApiError> CheckModel(const GenerationRequest& request, const ApiDeps& deps);
inline constexpr char kContextLengthExceeded[] = "context_length_exceeded";
/// 400: the prompt leaves no room for an answer. The wording is OpenAI's or Anthropic's, because clients
/// recognise it and then shorten the conversation (LiteLLM, LangChain and agents search for it in the text).
net::ApiError PromptTooLong(const GenerationRequest& request, int64_t tokens, const ApiDeps& deps);
/// Renders `conversation`, which is the request's or the end of it, with the template.
std::variant<std::vector<TextSegment>, net::ApiError> RenderConversation(const GenerationRequest& request,
                                                                         const Conversation& conversation,
                                                                         const ApiDeps& deps);
/// Renders and tokenises the prompts; each fits into the context unless it is only counted.
std::variant<std::vector<std::vector<TokenId>>, net::ApiError> TokenisePrompts(
    const GenerationRequest& request, const ApiDeps& deps);

}  // namespace numoe::serving
