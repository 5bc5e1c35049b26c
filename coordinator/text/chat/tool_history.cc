#include "coordinator/text/chat/tool_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_json.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

bool IsResult(const ordered_json& message) {
  NUMOE_DCHECK(message.is_object() && message.contains("role")) << "NormaliseMessages must be called first";
  return message["role"] == "tool";
}

std::string Text(const ordered_json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// Returns the calls of a message; an empty list if it has none.
const ordered_json& CallsOf(const ordered_json& message) {
  static const ordered_json none = ordered_json::array();
  const auto it = message.find("tool_calls");
  return it == message.end() ? none : *it;
}

}  // namespace

int NextCallNumber(const ordered_json& messages) {
  constexpr int kNumberMax = 1'000'000;  // a larger number is not a counter
  int made = 0, next = 0;
  for (const ordered_json& message : messages) {
    for (const ordered_json& call : CallsOf(message)) {
      ++made;
      const std::string id = Text(call, "id");
      const size_t colon = id.rfind(':');
      int number = -1;
      if (colon == std::string::npos) continue;
      const char* end = id.data() + id.size();
      if (std::from_chars(id.data() + colon + 1, end, number).ptr != end) continue;
      if (number >= 0 && number < kNumberMax) next = std::max(next, number + 1);
    }
  }
  return std::max(made, next);
}

void OrderToolResults(ordered_json& messages) {
  std::map<std::string, int> place;  // by id: the place of the last call with that id
  int calls = 0;
  for (size_t begin = 0; begin < messages.size(); ++begin) {
    for (const ordered_json& call : CallsOf(messages[begin])) place[Text(call, "id")] = calls++;
    size_t end = begin;
    while (end < messages.size() && IsResult(messages[end])) ++end;
    if (end == begin) continue;
    std::vector<std::pair<int, ordered_json>> results;
    for (size_t i = begin; i < end; ++i) {
      const auto known = place.find(Text(messages[i], "tool_call_id"));
      results.emplace_back(known == place.end() ? calls : known->second, std::move(messages[i]));
    }
    std::stable_sort(results.begin(), results.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = begin; i < end; ++i) messages[i] = std::move(results[i - begin].second);
    NUMOE_DCHECK_EQ(results.size(), end - begin);
    begin = end - 1;
  }
}

void RewriteCallIds(ordered_json& messages, int first_number) {
  std::map<std::string, std::string> canonical;  // by the client's id: the new id of the last call with it
  std::deque<std::string> open;                  // calls without an answer, oldest first
  int number = first_number;
  for (ordered_json& message : messages) {
    if (IsResult(message)) {
      const auto known = canonical.find(Text(message, "tool_call_id"));
      std::string id = Text(message, "tool_call_id");
      if (known != canonical.end()) {
        id = known->second;
      } else if (!open.empty()) {
        id = open.front();
      }
      if (const auto it = std::find(open.begin(), open.end(), id); it != open.end()) open.erase(it);
      if (!id.empty()) message["tool_call_id"] = id;
      continue;
    }
    if (CallsOf(message).empty()) continue;
    open.clear();  // earlier calls without a result keep none
    for (ordered_json& call : message["tool_calls"]) {
      const std::string id =
          fmt::format("functions.{}:{}", call["function"]["name"].get<std::string>(), number++);
      if (const std::string old = Text(call, "id"); !old.empty()) canonical[old] = id;
      open.push_back(id);
      call["id"] = id;
    }
  }
}

void FillEmptyContent(ordered_json& messages) {
  for (ordered_json& message : messages) {
    if (message["content"].is_null()) message["content"] = "";
  }
}

bool SpellArguments(ordered_json& messages) {
  bool any = false;
  for (ordered_json& message : messages) {
    if (CallsOf(message).empty()) continue;
    for (ordered_json& call : message["tool_calls"]) {
      ordered_json& arguments = call["function"]["arguments"];
      if (!arguments.is_object()) continue;
      arguments = jinja::ToJson(jinja::FromJson(arguments), {}).value_or("{}");
      any = true;
    }
  }
  return any;
}

}  // namespace numoe::text
