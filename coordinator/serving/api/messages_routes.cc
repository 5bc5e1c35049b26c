#include "coordinator/serving/api/messages_routes.h"

#include <memory>
#include <string>
#include <variant>

#include "common/json/json_reader.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/messages_request.h"
#include "coordinator/serving/api/preparation.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::variant<size_t, net::ApiError> CountPrompt(const std::string& body, const ApiDeps& deps) {
  auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return *error;
  JsonFields in(std::get<ordered_json>(json));
  GenerationRequest request;
  in.String("model", request.model);
  ReadMessagesConversation(in, request);
  if (in.error()) return *in.error();
  if (auto error = CheckModel(request, deps)) return *error;
  request.counted_only = true;
  auto prompts = TokenisePrompts(request, deps);
  if (const auto* error = std::get_if<net::ApiError>(&prompts)) return *error;
  return std::get<0>(prompts)[0].size();
}

}  // namespace

void AddMessagesRoutes(net::UrlTable& urls, const ApiDeps& deps, PreparationPool& preparers) {
  const auto count = [&deps, &preparers](const std::shared_ptr<net::Exchange>& exchange) {
    preparers.Add(exchange, [&deps, exchange]() -> PreparationPool::Then {
      return [exchange, counted = CountPrompt(exchange->TakeBody(), deps)] {
        if (const auto* error = std::get_if<net::ApiError>(&counted)) return exchange->ReplyError(*error);
        exchange->Reply({.body = DumpJson({{"input_tokens", std::get<size_t>(counted)}})});
      };
    });
  };
  urls.Add({.method = "POST",
            .pattern = "/v1/messages/count_tokens",
            .summary = "Counts the tokens of a conversation (Anthropic)",
            .handle = count,
            .counted = false,
            .errors = net::ErrorShape::kAnthropic});
}

}  // namespace numoe::serving
