#include "coordinator/net/client/answer_chunk.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::net {
namespace {

using nlohmann::ordered_json;

// Returns the member, or null if there is none.
const ordered_json& Member(const ordered_json& object, const char* name) {
  static const ordered_json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string Text(const ordered_json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : std::string();
}

int64_t Count(const ordered_json& value) {
  return value.is_number_integer() ? std::max<int64_t>(value.get<int64_t>(), 0) : 0;
}

// Servers use these forms: {"error": {"message": ...}}, {"error": "..."}, {"message": ...}, {"detail": ...}.
std::string ErrorMessage(const ordered_json& body) {
  const ordered_json& error = Member(body, "error");
  for (const ordered_json* text : {&Member(error, "message"), &error, &Member(body, "message")}) {
    if (text->is_string()) return Text(*text);
  }
  const ordered_json& detail = Member(body, "detail");
  if (detail.is_null()) return "";
  return detail.is_string() ? Text(detail) : Brief(nlohmann::json(detail));
}

ReportedUsage ReadUsage(const ordered_json& usage) {
  return {.prompt_tokens = Count(Member(usage, "prompt_tokens")),
          .completion_tokens = Count(Member(usage, "completion_tokens")),
          .cached_tokens = Count(Member(Member(usage, "prompt_tokens_details"), "cached_tokens"))};
}

void ReadMessage(const ordered_json& message, AnswerChunk& chunk) {
  chunk.content = Text(Member(message, "content"));
  chunk.reasoning = Text(Member(message, "reasoning_content"));
  if (chunk.reasoning.empty()) chunk.reasoning = Text(Member(message, "reasoning"));
  const ordered_json& calls = Member(message, "tool_calls");
  if (!calls.is_array()) return;
  for (const ordered_json& call : calls) {
    const ordered_json& function = Member(call, "function");
    const ordered_json& index = Member(call, "index");
    chunk.calls.push_back(
        {.index = index.is_number_integer() ? Count(index) : static_cast<int64_t>(chunk.calls.size()),
         .id = Text(Member(call, "id")),
         .name = Text(Member(function, "name")),
         .arguments = Text(Member(function, "arguments"))});
  }
}

}  // namespace

absl::StatusOr<AnswerChunk> ReadAnswerChunk(std::string_view json) {
  auto parsed = ParseBoundedJson(json);
  if (!parsed.ok())
    return absl::InvalidArgumentError(fmt::format("the server sent '{}'; expected a JSON object: {}",
                                                  Printable(json), std::string(parsed.status().message())));
  if (const ordered_json& error = Member(*parsed, "error"); !error.is_null())
    return absl::UnavailableError("the server ended the answer with an error: " + ErrorMessage(*parsed));
  const ordered_json& choices = Member(*parsed, "choices");
  if (!choices.is_array())
    return absl::InvalidArgumentError(
        fmt::format("the server sent '{}'; expected an object with choices", Printable(json)));
  AnswerChunk chunk;
  if (const ordered_json& usage = Member(*parsed, "usage"); usage.is_object()) chunk.usage = ReadUsage(usage);
  if (choices.empty()) return chunk;
  const ordered_json& choice = choices[0];
  chunk.has_choice = true;
  chunk.finish_reason = Text(Member(choice, "finish_reason"));
  for (const char* name : {"delta", "message"}) {
    if (const ordered_json& message = Member(choice, name); message.is_object()) ReadMessage(message, chunk);
  }
  if (chunk.content.empty()) chunk.content = Text(Member(choice, "text"));
  return chunk;
}

absl::Status HttpError(int http_status, std::string_view body) {
  NUMOE_CHECK_NE(http_status, 200);
  const auto parsed = ParseBoundedJson(body);
  std::string message = parsed.ok() ? ErrorMessage(*parsed) : "";
  if (message.empty()) message = body.empty() ? "no reason given" : Printable(body);
  message = fmt::format("{}: {}", http_status, message);
  switch (http_status) {
    case 400:
      return absl::InvalidArgumentError(message);
    case 401:
    case 403:
      return absl::UnauthenticatedError(message);
    case 404:
      return absl::NotFoundError(message);
    case 429:
    case 503:
      return absl::UnavailableError(message);
    default:
      return absl::UnknownError(message);
  }
}

}  // namespace numoe::net
