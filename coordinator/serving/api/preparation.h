// Preparation: from a body to what the engine is given. The slow part of a request before its first token.
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
  std::vector<std::unique_ptr<execution::TokenConstraint>> constraints;  // [choice]; null: any text
};

using RequestReader = std::function<std::variant<GenerationRequest, net::ApiError>(
    const nlohmann::ordered_json&, const GenerationDefaults&)>;

/// The body's JSON object; 400 if it is something else.
std::variant<nlohmann::ordered_json, net::ApiError> ReadBody(std::string_view body);
std::variant<Prepared, net::ApiError> Prepare(std::string_view body, const RequestReader& read,
                                              const ApiDeps& deps,
                                              UnaskedThinking unasked = UnaskedThinking::kAsTrained);
/// 404 if the request names a model that is not served.
std::optional<net::ApiError> CheckModel(const GenerationRequest& request, const ApiDeps& deps);
inline constexpr char kContextLengthExceeded[] = "context_length_exceeded";
/// 400: the prompt leaves no room for an answer, in the words that clients know it by and then shorten the
/// conversation: OpenAI's (LiteLLM, LangChain and agents look for them in the text), or Anthropic's.
net::ApiError PromptTooLong(const GenerationRequest& request, int64_t tokens, const ApiDeps& deps);
/// The text of `conversation`, which is the request's or the end of it, as the template renders it.
std::variant<std::vector<TextSegment>, net::ApiError> RenderConversation(const GenerationRequest& request,
                                                                         const Conversation& conversation,
                                                                         const ApiDeps& deps);
/// The prompts as the model sees them: rendered and tokenised, each within the context unless it is only
/// counted.
std::variant<std::vector<std::vector<TokenId>>, net::ApiError> TokenisePrompts(
    const GenerationRequest& request, const ApiDeps& deps);

}  // namespace numoe::serving
