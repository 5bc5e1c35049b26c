#include "coordinator/text/chat/chat_messages.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

absl::Status Error(const std::string& where, const std::string& expected) {
  return absl::InvalidArgumentError(fmt::format("{}: expected {}", where, expected));
}

absl::StatusOr<ordered_json> Content(const ordered_json& content, const std::string& where) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) return Error(where, "a string, null or a list of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const std::string place = fmt::format("{}[{}]", where, i);
    if (!part.is_object()) return Error(place, "an object");
    const ordered_json type = part.value("type", ordered_json());
    // A refusal of an earlier turn is what the model said in that turn.
    if (type != "text" && type != "refusal")
      return Error(place + ".type", "\"text\" (this model takes text only), found " + Brief(type));
    const char* const field = type == "refusal" ? "refusal" : "text";
    if (!part.contains(field) || !part[field].is_string()) return Error(place + "." + field, "a string");
    text += part[field].get_ref<const std::string&>();
  }
  return ordered_json(text);
}

absl::StatusOr<ordered_json> ToolCalls(const ordered_json& calls, const std::string& where) {
  if (!calls.is_array()) return Error(where, "a list");
  ordered_json out = calls;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string place = fmt::format("{}[{}].function", where, i);
    if (!out[i].is_object() || !out[i].contains("function") || !out[i]["function"].is_object())
      return Error(place, "an object");
    if (!out[i].contains("type")) out[i]["type"] = "function";  // DeepSeek's templates print it
    ordered_json& function = out[i]["function"];
    if (!function.contains("name") || !function["name"].is_string())
      return Error(place + ".name", "a string");
    if (!function.contains("arguments")) function["arguments"] = ordered_json::object();
    if (function["arguments"].is_string()) {
      absl::StatusOr<ordered_json> parsed = ParseBoundedJson(function["arguments"].get<std::string>());
      if (parsed.ok() && parsed->is_object()) function["arguments"] = *std::move(parsed);
    }
  }
  return out;
}

// Checks a message's reasoning. Clients use two names for it; templates know only reasoning_content.
absl::Status Reasoning(ordered_json& message, const std::string& where) {
  for (const char* field : {"reasoning_content", "reasoning"}) {
    if (message.contains(field) && message[field].is_null()) message.erase(field);
    if (message.contains(field) && !message[field].is_string())
      return Error(where + "." + field, "a string or null");
  }
  if (message.contains("reasoning") && !message.contains("reasoning_content"))
    message["reasoning_content"] = message["reasoning"];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ordered_json> NormaliseMessages(const ordered_json& messages) {
  if (!messages.is_array() || messages.empty()) return Error("messages", "a list with at least one message");
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) return Error(where, "an object");
    ordered_json message = messages[i];
    if (!message.contains("role") || !message["role"].is_string()) return Error(where + ".role", "a string");
    if (message["role"] == "developer") message["role"] = "system";
    const std::string role = message["role"];
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
      return Error(where + ".role",
                   "system, developer, user, assistant or tool, found " + Brief(message["role"]));
    }
    ASSIGN_OR_RETURN(message["content"],
                     Content(message.value("content", ordered_json()), where + ".content"));
    if (message["content"].is_null() && role == "assistant" &&
        message.value("refusal", ordered_json()).is_string())
      message["content"] = message["refusal"];
    if (message["content"].is_null() && role != "assistant")
      return Error(where + ".content", "a string or a list of parts");
    if (message.contains("tool_calls") && message["tool_calls"].is_null()) message.erase("tool_calls");
    if (message.contains("tool_calls")) {
      ASSIGN_OR_RETURN(message["tool_calls"], ToolCalls(message["tool_calls"], where + ".tool_calls"));
    }
    RETURN_IF_ERROR(Reasoning(message, where));
    out.push_back(std::move(message));
  }
  NUMOE_CHECK_EQ(out.size(), messages.size());
  return out;
}

}  // namespace numoe::text
