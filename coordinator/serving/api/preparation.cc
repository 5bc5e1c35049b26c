#include "coordinator/serving/api/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/bounded_answer.h"
#include "coordinator/serving/api/chat_prompt.h"
#include "coordinator/serving/api/conversation_window.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/refused_fields.h"
#include "coordinator/serving/api/sampling_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using TokenIds = std::vector<TokenId>;

// Megabytes take seconds to tokenise; the number of bytes alone may show that there are too many tokens.
std::optional<net::ApiError> CheckLength(const GenerationRequest& request, size_t text_bytes,
                                         const ApiDeps& deps) {
  const auto fewest = static_cast<int64_t>(deps.tokenizer.FewestTokens(text_bytes));
  const bool longer = request.truncation.tokens != 0 || request.truncation.messages || request.counted_only;
  const int64_t contexts = longer ? limits::kTruncationFactorMax : 1;
  if (fewest < contexts * deps.max_model_len) return std::nullopt;
  net::ApiError error = PromptTooLong(request, fewest, deps);
  error.message +=
      " (It was not tokenised: its number of bytes shows that it has at least this many tokens.)";
  return error;
}

// As in the completions of other engines, control tokens may be written as text, because a client that writes
// a whole prompt also writes the model's format. The token that begins every text is not added a second time.
TokenIds TokeniseText(const std::string& text, bool add_first, const text::Tokenizer& tokenizer) {
  TokenIds ids = tokenizer.Encode(text, text::Specials::kParse);
  const std::optional<TokenId> first = add_first ? tokenizer.FirstToken() : std::nullopt;
  if (first && (ids.empty() || ids.front() != *first)) ids.insert(ids.begin(), *first);
  return ids;
}

std::optional<net::ApiError> CheckPrompt(const GenerationRequest& request, const TokenIds& ids,
                                         const ApiDeps& deps) {
  const std::string& param = request.prompt_param;
  for (const TokenId id : ids) {
    if (id < deps.tokenizer.VocabSize()) continue;
    return net::BadRequest(
        param, fmt::format("token id {} is outside the vocabulary of {}", id, deps.tokenizer.VocabSize()));
  }
  if (ids.empty()) return net::BadRequest(param, "the prompt is empty");
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens >= deps.max_model_len && !request.counted_only) return PromptTooLong(request, tokens, deps);
  return std::nullopt;
}

std::optional<net::ApiError> Truncate(const GenerationRequest& request, const ApiDeps& deps,
                                      std::vector<TokenIds>& prompts) {
  int64_t most = request.truncation.tokens;
  if (most == 0) return std::nullopt;
  if (most < 0) most = deps.max_model_len - std::max(1, request.sampling.max_tokens.value_or(1));
  if (most < 1 || most > deps.max_model_len) {
    return net::BadRequest("truncate_prompt_tokens",
                           fmt::format("'truncate_prompt_tokens': expected a prompt of 1 to {} tokens, the "
                                       "context length (less max_tokens if "
                                       "it is -1), found one of {}",
                                       deps.max_model_len, most));
  }
  for (TokenIds& ids : prompts) {
    if (static_cast<int64_t>(ids.size()) <= most) continue;
    request.truncation.keep_first ? ids.erase(ids.begin() + most, ids.end())
                                  : ids.erase(ids.begin(), ids.end() - most);
  }
  return std::nullopt;
}

// The first token must fit both the constraint and the allowed tokens; later tokens cannot be checked in
// advance.
std::optional<net::ApiError> CheckFirstToken(execution::TokenConstraint& constraint,
                                             const std::vector<TokenId>& allowed) {
  const auto mask = constraint.Mask();
  if (!mask.ok() || mask->empty()) return std::nullopt;
  for (const TokenId token : allowed) {
    const auto word = static_cast<size_t>(token) / 64;
    if (word < mask->size() && ((*mask)[word] >> (token % 64) & 1) != 0) return std::nullopt;
  }
  return net::BadRequest("allowed_token_ids",
                         "'allowed_token_ids': none of these tokens can begin what tool_choice or structured "
                         "output demand; leave one "
                         "of these fields out");
}

// Creates a constraint for each choice.
std::optional<net::ApiError> Constrain(Prepared& prepared, const ApiDeps& deps) {
  static const text::OutputFormat raw;
  const bool chat = prepared.request.conversation.has_value();
  const auto words =
      ForbidWords(prepared.request, deps.grammars, chat ? deps.output_format : raw, deps.tokenizer);
  for (const TokenIds& prompt : prepared.prompts) {
    const std::optional<text::Mark> mark =
        chat ? text::PromptMark(deps.output_format, deps.tokenizer, prompt) : std::optional<text::Mark>();
    for (int i = 0; i < prepared.request.best_of; ++i) {
      const AnswerOutline outline{.format = chat ? deps.output_format : raw, .prompt_mark = mark};
      auto constraint = ConstrainAnswer(prepared.request, outline, deps.grammars);
      if (auto* error = std::get_if<net::ApiError>(&constraint)) return std::move(*error);
      constraint = BoundAnswer(std::get<0>(std::move(constraint)), prepared.request, outline, words,
                               *deps.grammars.vocabulary());
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
  const std::vector<std::string>& names = deps.model_names;
  if (request.model.empty() || std::find(names.begin(), names.end(), request.model) != names.end())
    return std::nullopt;
  return net::ApiError{
      .http_status = 404,
      .message = fmt::format("no such model: {}; this server has {}", request.model, fmt::join(names, ", ")),
      .param = "model",
      .code = "model_not_found"};
}

std::variant<std::vector<TextSegment>, net::ApiError> RenderConversation(const GenerationRequest& request,
                                                                         const Conversation& conversation,
                                                                         const ApiDeps& deps) {
  if (deps.chat_template == nullptr)
    return net::BadRequest(request.prompt_param, "this model has no chat template; use /v1/completions");
  if (conversation.has_documents && deps.chat_template->source().find("documents") == std::string::npos) {
    return net::BadRequest(
        "documents",
        "'documents': this model's chat template has no place for them; write their text into "
        "a message instead");
  }
  auto segments =
      RenderChat(*deps.chat_template, conversation, deps.output_format.tools, deps.tokenizer.role_tokens());
  if (!segments.ok()) {
    return net::BadRequest(request.prompt_param, "the chat template refuses this conversation: " +
                                                     std::string(segments.status().message()));
  }
  size_t bytes = 0;
  for (const TextSegment& segment : *segments) bytes += segment.text.size();
  if (auto error = CheckLength(request, bytes, deps)) return *std::move(error);
  return *std::move(segments);
}

net::ApiError PromptTooLong(const GenerationRequest& request, int64_t tokens, const ApiDeps& deps) {
  const int64_t answer = request.sampling.max_tokens.value_or(1);
  const char* const prompt = request.prompt_param == "messages" ? "messages" : "prompt";
  net::ApiError error = net::BadRequest(
      request.prompt_param,
      request.errors == net::ErrorShape::kAnthropic
          ? fmt::format("prompt is too long: {} tokens > {} maximum", tokens, deps.max_model_len - 1)
          : fmt::format(
                "This model's maximum context length is {} tokens. However, you requested {} tokens ({} "
                "in the {}, {} in the completion). Please reduce the length of the {} or completion.",
                deps.max_model_len, tokens + answer, tokens, prompt, answer, prompt));
  error.code = kContextLengthExceeded;
  return error;
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
    if (auto error = CheckLength(request, prompt.text.size(), deps)) return *std::move(error);
    prompts.push_back(prompt.tokens.empty()
                          ? TokeniseText(prompt.text, request.add_special_tokens, deps.tokenizer)
                          : prompt.tokens);
  }
  if (auto error = Truncate(request, deps, prompts)) return *std::move(error);
  for (const TokenIds& ids : prompts) {
    if (auto error = CheckPrompt(request, ids, deps)) return *error;
  }
  return prompts;
}

std::variant<Prepared, net::ApiError> Prepare(std::string_view body, const RequestReader& read,
                                              const ApiDeps& deps, UnaskedThinking unasked) {
  auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return *error;
  auto& root = std::get<ordered_json>(json);
  if (auto error = FindRefusedField(root)) return *error;
  if (auto error = ApplySamplingLocks(deps.locked, deps.defaults, root, unasked)) return *error;
  auto request = read(root, deps.defaults);
  if (const auto* error = std::get_if<net::ApiError>(&request)) return *error;
  Prepared prepared{
      .request = std::get<GenerationRequest>(std::move(request)), .prompts = {}, .constraints = {}};
  const GenerationRequest& r = prepared.request;
  NUMOE_CHECK(1 <= r.n && r.n <= r.best_of);
  if (auto error = CheckModel(r, deps)) return *error;
  if (auto error = CheckTokenIds(r.sampling, deps.tokenizer.VocabSize())) return *error;
  if (auto error = CheckTokenCounts(r.sampling)) return *error;
  auto prompts = TokenisePrompts(r, deps);
  if (const auto* error = std::get_if<net::ApiError>(&prompts)) return *error;
  prepared.prompts = std::get<std::vector<TokenIds>>(std::move(prompts));
  if (auto error = Constrain(prepared, deps)) return *error;
  NUMOE_CHECK_EQ(prepared.constraints.size(), prepared.prompts.size() * static_cast<size_t>(r.best_of));
  return prepared;
}

}  // namespace numoe::serving
