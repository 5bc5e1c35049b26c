#include "tests/support/chat_stream.h"

#include "common/base/check.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;

void AddText(const ordered_json& delta, const char* field, ordered_json& message) {
  const auto it = delta.find(field);
  if (it == delta.end() || it->is_null()) return;
  const std::string before = message.value(field, "");
  message[field] = before + it->get<std::string>();
}

void AddCall(const ordered_json& delta, ordered_json& message) {
  ordered_json& calls = message["tool_calls"];
  if (calls.is_null()) calls = ordered_json::array();
  const auto index = delta.at("index").get<size_t>();
  NUMOE_CHECK(index == calls.size() || index + 1 == calls.size()) << delta.dump();
  const ordered_json& function = delta.at("function");
  if (index == calls.size()) {
    NUMOE_CHECK(delta.at("type") == "function" && !function.at("name").get<std::string>().empty());
    calls.push_back({{"id", delta.at("id")}, {"type", "function"}, {"function", function}});
    return;
  }
  NUMOE_CHECK(!delta.contains("id") && !function.contains("name")) << delta.dump();
  ordered_json& arguments = calls[index]["function"]["arguments"];
  arguments = arguments.get<std::string>() + function.at("arguments").get<std::string>();
}

}  // namespace

ChatStream ReadChatStream(std::string_view events) {
  ChatStream out{.message = ordered_json::object(), .finish_reason = nullptr};
  while (!events.empty()) {
    const size_t end = events.find("\n\n");
    NUMOE_CHECK(end != std::string_view::npos && events.substr(0, 6) == "data: ") << events;
    const ordered_json chunk = ordered_json::parse(events.substr(6, end - 6));
    events.remove_prefix(end + 2);
    NUMOE_CHECK(out.finish_reason.is_null()) << "a chunk after the last: " << chunk.dump();
    const ordered_json& choice = chunk.at("choices").at(0);
    const ordered_json& delta = choice.at("delta");
    NUMOE_CHECK_EQ(delta.contains("role"), out.chunks == 0) << chunk.dump();
    NUMOE_CHECK(!delta.empty() || !choice.at("finish_reason").is_null()) << chunk.dump();
    ++out.chunks;
    if (delta.contains("role")) out.message["role"] = delta["role"];
    for (const char* field : {"content", "reasoning_content", "reasoning"})
      AddText(delta, field, out.message);
    if (const auto calls = delta.find("tool_calls"); calls != delta.end()) {
      for (const ordered_json& call : *calls) AddCall(call, out.message);
    }
    out.finish_reason = choice.at("finish_reason");
  }
  return out;
}

}  // namespace numoe
