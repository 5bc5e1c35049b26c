#include "coordinator/serving/api/preparation.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/serving/api/answer_constraint.h"
#include "coordinator/serving/api/chat_prompt.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/sampling_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using TokenIds = std::vector<TokenId>;

// What is locked is set, so that readers find it; a request that wants something else is told.
std::optional<net::ApiError> ApplyLocks(const ApiDeps& deps, ordered_json& body) {
  const bool nested = body.contains("sampling_params") && body["sampling_params"].is_object();
  ordered_json& fields = nested ? body["sampling_params"] : body;
  for (const auto& [name, value] : deps.locked) {
    const auto given = fields.find(name);
    if (given != fields.end() && !given->is_null() && *given != value) {
      return net::BadRequest(name, fmt::format("'{}': this server has it locked at {}, found {}", name, value,
                                               JsonFields::Short(*given)));
    }
    fields[name] = SamplingNumber(value);
  }
  return std::nullopt;
}

std::optional<net::ApiError> CheckLength(const std::string& found, int64_t tokens, const char* param,
                                         const ApiDeps& deps) {
  if (tokens < deps.max_model_len) return std::nullopt;
  net::ApiError error = net::BadRequest(
      param, fmt::format("the prompt has {}, but the context length is {}", found, deps.max_model_len));
  error.code = "context_length_exceeded";
  return error;
}

// Megabytes take seconds to become tokens; by their bytes alone they may be too many already.
std::optional<net::ApiError> CheckLength(size_t text_bytes, const char* param, const ApiDeps& deps) {
  const auto fewest = static_cast<int64_t>(deps.tokenizer.FewestTokens(text_bytes));
  return CheckLength(fmt::format("at least {} tokens", fewest), fewest, param, deps);
}

std::variant<TokenIds, net::ApiError> TokeniseConversation(const GenerationRequest& request,
                                                           const ApiDeps& deps) {
  if (deps.chat_template == nullptr)
    return net::BadRequest("messages", "this model has no chat template; use /v1/completions");
  const auto segments = RenderChat(*deps.chat_template, *request.conversation, deps.output_format.tools,
                                   deps.tokenizer.role_tokens());
  if (!segments.ok()) {
    return net::BadRequest("messages", "the chat template refuses this conversation: " +
                                           std::string(segments.status().message()));
  }
  size_t bytes = 0;
  for (const TextSegment& segment : *segments) bytes += segment.text.size();
  if (auto error = CheckLength(bytes, "messages", deps)) return *std::move(error);
  return deps.tokenizer.EncodeSegments(*segments);
}

std::optional<net::ApiError> CheckPrompt(const TokenIds& ids, const char* param, const ApiDeps& deps) {
  for (const TokenId id : ids) {
    if (id < deps.tokenizer.VocabSize()) continue;
    return net::BadRequest(
        param, fmt::format("token id {} is outside the vocabulary of {}", id, deps.tokenizer.VocabSize()));
  }
  if (ids.empty()) return net::BadRequest(param, "the prompt is empty");
  return CheckLength(fmt::format("{} tokens", ids.size()), static_cast<int64_t>(ids.size()), param, deps);
}

// What the first token must be and what it may be can be compared at once; later ones' cannot.
std::optional<net::ApiError> CheckFirstToken(execution::TokenConstraint& constraint,
                                             const std::vector<TokenId>& allowed) {
  const auto mask = constraint.Mask();
  if (!mask.ok() || mask->empty()) return std::nullopt;
  for (const TokenId token : allowed) {
    const auto word = static_cast<size_t>(token) / 64;
    if (word < mask->size() && ((*mask)[word] >> (token % 64) & 1) != 0) return std::nullopt;
  }
  return net::BadRequest(
      "allowed_token_ids",
      "'allowed_token_ids': none of these tokens can begin what tool_choice or structured output "
      "ask for; leave one of them out");
}

// A constraint for each choice.
std::optional<net::ApiError> Constrain(Prepared& prepared, const ApiDeps& deps) {
  static const text::OutputFormat raw;
  const bool chat = prepared.request.conversation.has_value();
  for (const TokenIds& prompt : prepared.prompts) {
    const std::optional<text::Mark> mark =
        chat ? text::PromptMark(deps.output_format, deps.tokenizer, prompt) : std::optional<text::Mark>();
    for (int i = 0; i < prepared.request.best_of; ++i) {
      auto constraint = ConstrainAnswer(
          prepared.request, {.format = chat ? deps.output_format : raw, .prompt_mark = mark}, deps.grammars);
      if (auto* error = std::get_if<net::ApiError>(&constraint)) return std::move(*error);
      prepared.constraints.push_back(std::get<0>(std::move(constraint)));
      const std::vector<TokenId>& allowed = prepared.request.sampling.allowed_token_ids;
      if (prepared.constraints.back() == nullptr || allowed.empty()) continue;
      if (auto error = CheckFirstToken(*prepared.constraints.back(), allowed)) return error;
    }
  }
  return std::nullopt;
}

}  // namespace

std::variant<ordered_json, net::ApiError> ReadBody(std::string_view body) {
  absl::StatusOr<ordered_json> parsed = ParseBoundedJson(body);
  if (!parsed.ok()) return net::BadRequest("", "the body is " + std::string(parsed.status().message()));
  if (!parsed->is_object()) return net::BadRequest("", "the body must be a JSON object");
  return *std::move(parsed);
}

std::optional<net::ApiError> CheckModel(const GenerationRequest& request, const ApiDeps& deps) {
  if (request.model.empty() || request.model == deps.model_name) return std::nullopt;
  return net::ApiError{
      .http_status = 404,
      .message = fmt::format("no such model: {}; this server has {}", request.model, deps.model_name),
      .param = "model",
      .code = "model_not_found"};
}

std::variant<std::vector<TokenIds>, net::ApiError> TokenisePrompts(const GenerationRequest& request,
                                                                   const ApiDeps& deps) {
  std::vector<TokenIds> prompts;
  if (request.conversation) {
    auto ids = TokeniseConversation(request, deps);
    if (const auto* error = std::get_if<net::ApiError>(&ids)) return *error;
    prompts.push_back(std::get<TokenIds>(std::move(ids)));
  }
  for (const Prompt& prompt : request.prompts) {
    if (auto error = CheckLength(prompt.text.size(), "prompt", deps)) return *std::move(error);
    prompts.push_back(prompt.tokens.empty() ? deps.tokenizer.Encode(prompt.text, text::Specials::kAsText)
                                            : prompt.tokens);
  }
  for (const TokenIds& ids : prompts) {
    if (auto error = CheckPrompt(ids, request.conversation ? "messages" : "prompt", deps)) return *error;
  }
  return prompts;
}

std::variant<Prepared, net::ApiError> Prepare(std::string_view body, const RequestReader& read,
                                              const ApiDeps& deps) {
  auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return *error;
  auto& root = std::get<ordered_json>(json);
  if (auto error = ApplyLocks(deps, root)) return *error;
  auto request = read(root, deps.defaults);
  if (const auto* error = std::get_if<net::ApiError>(&request)) return *error;
  Prepared prepared{
      .request = std::get<GenerationRequest>(std::move(request)), .prompts = {}, .constraints = {}};
  const GenerationRequest& r = prepared.request;
  NUMOE_CHECK(1 <= r.n && r.n <= r.best_of);
  if (auto error = CheckModel(r, deps)) return *error;
  if (auto error = CheckTokenIds(r.sampling, deps.tokenizer.VocabSize())) return *error;
  auto prompts = TokenisePrompts(r, deps);
  if (const auto* error = std::get_if<net::ApiError>(&prompts)) return *error;
  prepared.prompts = std::get<std::vector<TokenIds>>(std::move(prompts));
  if (auto error = Constrain(prepared, deps)) return *error;
  NUMOE_CHECK_EQ(prepared.constraints.size(), prepared.prompts.size() * static_cast<size_t>(r.best_of));
  return prepared;
}

}  // namespace numoe::serving
