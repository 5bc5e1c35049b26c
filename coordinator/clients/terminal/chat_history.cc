#include "coordinator/clients/terminal/chat_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::clients {
namespace {

using nlohmann::ordered_json;

// Fields that this program sets itself: the parts of the conversation, and how the answer is sent.
constexpr const char* kReserved[] = {"model", "messages", "tools", "stream", "stream_options", "n"};

bool IsReserved(const std::string& name) {
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

std::string Dump(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// Reads a value as a person types it: ".6" is a number here, although it is not one in JSON.
ordered_json ReadValue(std::string_view text) {
  if (auto json = ParseBoundedJson(text); json.ok()) return *std::move(json);
  const std::string copy(text);
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  const bool numeric = copy.find_first_not_of("+-.0123456789eE") == std::string::npos;
  if (numeric && *end == '\0' && std::isfinite(number)) return number;
  return copy;
}

std::string RoleOf(const ordered_json& message) { return message.value("role", ""); }

absl::Status CheckMessages(const ordered_json& messages) {
  if (!messages.is_array())
    return absl::InvalidArgumentError("messages is not a list, expected [{\"role\": ...}, ...]");
  for (const ordered_json& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return absl::InvalidArgumentError(
          fmt::format("a message is {}, expected an object with a role", Brief(nlohmann::json(message))));
  }
  return absl::OkStatus();
}

absl::Status CheckTools(const ordered_json& tools) {
  return tools.is_array() ? absl::OkStatus()
                          : absl::InvalidArgumentError(
                                "the tools are not a list, expected [{\"type\": \"function\", ...}]");
}

}  // namespace

void ChatHistory::SetSystem(const std::string& text) {
  ordered_json& messages = request_["messages"];
  NUMOE_CHECK(messages.is_array());
  const bool has = !messages.empty() && RoleOf(messages[0]) == "system";
  if (has) messages.erase(0);
  if (text.empty()) return;
  const ordered_json message = {{"role", "system"}, {"content", text}};
  messages.insert(messages.begin(), message);
}

std::string ChatHistory::system() const {
  const ordered_json& messages = request_["messages"];
  if (messages.empty() || RoleOf(messages[0]) != "system" || !messages[0].contains("content")) return "";
  return messages[0]["content"].is_string() ? messages[0]["content"].get<std::string>() : "";
}

absl::Status ChatHistory::Set(const std::string& name, std::string_view value) {
  if (IsReserved(name))
    return absl::InvalidArgumentError(
        fmt::format("{} is not a sampling parameter: numoe-chat sets it itself", name));
  if (value.empty()) {
    request_.erase(name);
  } else {
    request_[name] = ReadValue(value);
  }
  return absl::OkStatus();
}

std::string ChatHistory::Settings() const {
  std::string text;
  for (const auto& [name, value] : request_.items()) {
    if (!IsReserved(name)) text += fmt::format("{} = {}\n", name, Dump(value, -1));
  }
  return text;
}

absl::Status ChatHistory::SetTools(std::string_view json) {
  ASSIGN_OR_RETURN(ordered_json tools, ParseBoundedJson(json));
  RETURN_IF_ERROR(CheckTools(tools));
  request_["tools"] = std::move(tools);
  return absl::OkStatus();
}

void ChatHistory::AddQuestion(const std::string& text) {
  request_["messages"].push_back({{"role", "user"}, {"content", text}});
}

void ChatHistory::AddAnswer(const net::CollectedAnswer& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const net::CollectedAnswer::Call& call : answer.calls) {
    message["tool_calls"].push_back({{"id", call.id},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  request_["messages"].push_back(std::move(message));
}

void ChatHistory::AddToolResult(const net::CollectedAnswer::Call& call, const std::string& result) {
  NUMOE_CHECK_GT(messages(), size_t{0}) << "a result follows its call";
  request_["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", call.id}, {"name", call.name}, {"content", result}});
}

void ChatHistory::Reset() {
  const std::string text = system();
  request_["messages"] = ordered_json::array();
  SetSystem(text);
  NUMOE_CHECK_EQ(messages(), static_cast<size_t>(!text.empty()));
}

size_t ChatHistory::LastQuestion() const {
  const ordered_json& messages = request_["messages"];
  NUMOE_CHECK(messages.is_array());
  for (size_t i = messages.size(); i > 0; --i) {
    if (RoleOf(messages[i - 1]) == "user") return i - 1;
  }
  return messages.size();
}

void ChatHistory::Truncate(size_t messages) {
  ordered_json& all = request_["messages"];
  NUMOE_CHECK_LE(messages, all.size());
  while (all.size() > messages) all.erase(all.size() - 1);
}

bool ChatHistory::Undo() {
  const size_t question = LastQuestion();
  if (question == messages()) return false;
  Truncate(question);
  return true;
}

bool ChatHistory::Reopen() {
  const size_t question = LastQuestion();
  if (question == messages()) return false;
  Truncate(question + 1);
  return true;
}

std::string ChatHistory::Body(bool stream) const {
  ordered_json body = request_;
  for (ordered_json& message : body["messages"]) {
    if (!message.contains("tool_calls")) message.erase("reasoning_content");
  }
  NUMOE_CHECK_EQ(body["messages"].size(), messages());
  body["stream"] = stream;
  if (stream) body["stream_options"] = {{"include_usage", true}};
  return Dump(body, -1);
}

std::string ChatHistory::Save() const { return Dump(request_, 2) + "\n"; }

absl::Status ChatHistory::Load(std::string_view text) {
  ASSIGN_OR_RETURN(ordered_json loaded, ParseBoundedJson(text));
  if (loaded.is_array()) {
    RETURN_IF_ERROR(CheckMessages(loaded));
    request_["messages"] = std::move(loaded);
    return absl::OkStatus();
  }
  if (!loaded.is_object() || !loaded.contains("messages"))
    return absl::InvalidArgumentError(
        "the file has no messages, expected {\"messages\": [...]} or a list of messages");
  RETURN_IF_ERROR(CheckMessages(loaded["messages"]));
  if (loaded.contains("tools")) RETURN_IF_ERROR(CheckTools(loaded["tools"]));
  if (!loaded.contains("model") || !loaded["model"].is_string()) loaded["model"] = model();
  for (const char* name : {"stream", "stream_options", "n"}) loaded.erase(name);
  request_ = std::move(loaded);
  NUMOE_CHECK(request_["messages"].is_array() && request_["model"].is_string());
  return absl::OkStatus();
}

}  // namespace numoe::clients
