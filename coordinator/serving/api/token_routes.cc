#include "coordinator/serving/api/token_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/json/json_reader.h"
#include "coordinator/serving/api/conversation_extras.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/preparation.h"
#include "coordinator/serving/api/refused_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

net::HttpReply ErrorReply(const net::ApiError& error) {
  return {.status = error.http_status, .body = error.ToJson()};
}

void ReadWholeConversation(JsonFields& in, GenerationRequest& request) {
  ReadConversation(in, request);
  ReadConversationExtras(in, request);
}

net::HttpReply TokenizeReply(const std::string& body, const ApiDeps& deps) {
  auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return ErrorReply(*error);
  if (const auto error = FindRefusedField(std::get<ordered_json>(json))) return ErrorReply(*error);
  JsonFields in(std::get<ordered_json>(json));
  GenerationRequest request;
  bool texts = false;
  in.Get("messages") != nullptr
      ? ReadWholeConversation(in, request)
      : ReadPrompts(in, in.Get("content") != nullptr ? "content" : "prompt", request);
  in.String("model", request.model);
  in.Bool("return_token_strs", texts);
  if (!in.error() && request.prompts.size() > 1) in.Fail("prompt", "one prompt");
  if (in.error()) return ErrorReply(*in.error());
  if (const auto error = CheckModel(request, deps)) return ErrorReply(*error);
  request.counted_only = true;
  auto prompts = TokenisePrompts(request, deps);
  if (const auto* error = std::get_if<net::ApiError>(&prompts)) return ErrorReply(*error);
  const std::vector<TokenId>& tokens = std::get<std::vector<std::vector<TokenId>>>(prompts)[0];
  ordered_json reply = {{"count", tokens.size()}, {"max_model_len", deps.max_model_len}, {"tokens", tokens}};
  if (texts) {
    for (const TokenId token : tokens)
      reply["token_strs"].push_back(std::string(deps.tokenizer.TokenBytes(token)));
  }
  return {.body = DumpJson(reply)};
}

net::HttpReply DetokenizeReply(const std::string& body, const ApiDeps& deps) {
  auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return ErrorReply(*error);
  JsonFields in(std::get<ordered_json>(json));
  std::vector<TokenId> tokens;
  bool skip_special = false;
  if (in.Get("tokens") == nullptr) in.Fail("tokens", "a list of token ids, found nothing");
  in.Tokens("tokens", tokens);
  in.Bool("skip_special_tokens", skip_special);
  const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                  [&](TokenId token) { return token >= deps.tokenizer.VocabSize(); });
  if (wrong != tokens.end())
    in.Fail("tokens", fmt::format("ids below {}, found {}", deps.tokenizer.VocabSize(), *wrong));
  if (in.error()) return ErrorReply(*in.error());
  const std::string text = deps.tokenizer.Decode(tokens, skip_special);
  // The names that vLLM, SGLang and llama.cpp use.
  return {.body = DumpJson({{"prompt", text}, {"text", text}, {"content", text}})};
}

net::HttpReply ApplyTemplateReply(const std::string& body, const ApiDeps& deps) {
  auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return ErrorReply(*error);
  if (const auto error = FindRefusedField(std::get<ordered_json>(json))) return ErrorReply(*error);
  JsonFields in(std::get<ordered_json>(json));
  GenerationRequest request;
  ReadWholeConversation(in, request);
  in.String("model", request.model);
  if (in.error()) return ErrorReply(*in.error());
  if (const auto error = CheckModel(request, deps)) return ErrorReply(*error);
  request.counted_only = true;
  const auto segments = RenderConversation(request, *request.conversation, deps);
  if (const auto* error = std::get_if<net::ApiError>(&segments)) return ErrorReply(*error);
  std::string prompt;
  for (const TextSegment& segment : std::get<std::vector<TextSegment>>(segments)) prompt += segment.text;
  return {.body = DumpJson({{"prompt", prompt}})};
}

}  // namespace

void AddTokenRoutes(net::UrlTable& urls, const ApiDeps& deps, PreparationPool& preparers) {
  using Answer = net::HttpReply (*)(const std::string& body, const ApiDeps& deps);
  const auto add = [&](const char* path, const char* summary, Answer answer) {
    const auto prepare = [&deps, &preparers, answer](const std::shared_ptr<net::Exchange>& exchange) {
      preparers.Add(exchange, [&deps, answer, exchange]() -> PreparationPool::Then {
        return [exchange, reply = answer(exchange->TakeBody(), deps)] { exchange->Reply(reply); };
      });
    };
    urls.Add({.method = "POST", .pattern = path, .summary = summary, .handle = prepare, .counted = false});
  };
  for (const char* path : {"/tokenize", "/v1/tokenize"})
    add(path, "Returns the token ids of a prompt or a conversation", TokenizeReply);
  for (const char* path : {"/detokenize", "/v1/detokenize"})
    add(path, "Returns the text of token ids", DetokenizeReply);
  add("/apply-template", "Returns the text that the chat template makes of a conversation (llama.cpp)",
      ApplyTemplateReply);
}

}  // namespace numoe::serving
