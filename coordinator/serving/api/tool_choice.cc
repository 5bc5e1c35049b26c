#include "coordinator/serving/api/tool_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Choice = CallPolicy::Choice;

const ordered_json* Member(const ordered_json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string TextMember(const ordered_json& object, const char* name) {
  const ordered_json* value = Member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

net::ApiError Wrong(const char* param, const std::string& expected, const ordered_json& found) {
  return net::BadRequest(
      param, fmt::format("'{}': expected {}, found {}", param, expected, found.dump().substr(0, 60)));
}

// Returns the name in {"function": {"name"}} or in {"name"}.
std::string FunctionName(const ordered_json& object) {
  const ordered_json* function = Member(object, "function");
  return TextMember(function != nullptr ? *function : object, "name");
}

// Whether the schema does not say anything about the content of the object.
bool TakesNothing(const ordered_json& schema) {
  const auto says = [](const auto& member) {
    static constexpr std::string_view kAnnotations[] = {
        "type", "title", "description", "$schema", "$id", "$defs", "definitions", "default", "examples"};
    const bool nothing =
        std::find(std::begin(kAnnotations), std::end(kAnnotations), member.key()) != std::end(kAnnotations) ||
        ((member.key() == "properties" || member.key() == "required") && member.value().empty());
    return !nothing;
  };
  for (const auto& member : schema.items())
    if (says(member)) return false;
  return true;
}

ordered_json ArgumentsSchema(const ordered_json* parameters) {
  ordered_json schema = parameters == nullptr ? ordered_json::object() : *parameters;
  NUMOE_CHECK(schema.is_object()) << "CheckDeclaredFunctions has checked it";
  schema["type"] = "object";
  if (TakesNothing(schema)) schema["additionalProperties"] = false;
  return schema;
}

int CallsMade(const ordered_json& messages) {
  int made = 0;
  for (const ordered_json& message : messages) {
    const ordered_json* calls = Member(message, "tool_calls");
    if (calls != nullptr) made += static_cast<int>(calls->size());
  }
  return made;
}

class PolicyReader {
 public:
  explicit PolicyReader(const ToolFields& fields) : fields_(fields) {}

  std::variant<CallPolicy, net::ApiError> Read() {
    policy_.parallel = fields_.parallel;
    policy_.first_index = CallsMade(fields_.messages);
    ReadChoice();
    if (policy_.choice == Choice::kNone) policy_.calls.clear();
    if (!error_ && policy_.choice != Choice::kNone) ReadTools();
    if (error_) return *error_;
    NUMOE_CHECK(!policy_.demanded() || !policy_.calls.empty());
    return std::move(policy_);
  }

 private:
  void Fail(net::ApiError error) {
    if (!error_) error_ = std::move(error);
  }

  void ReadChoice() {
    const bool tools = !fields_.tools.is_null();
    policy_.choice = tools ? Choice::kAuto : Choice::kNone;
    if (fields_.choice == nullptr) return;
    const ordered_json& choice = *fields_.choice;
    if (choice == "none") {
      policy_.choice = Choice::kNone;
    } else if (choice == "required") {
      policy_.choice = Choice::kRequired;
    } else if (TextMember(choice, "type") == "function" && !FunctionName(choice).empty()) {
      policy_.choice = Choice::kNamed;
      policy_.parallel = false;
      allowed_ = {FunctionName(choice)};
    } else if (TextMember(choice, "type") == "allowed_tools") {
      ReadAllowed(choice);
    } else if (choice != "auto") {
      return Fail(Wrong("tool_choice",
                        "\"none\", \"auto\", \"required\", a function's name as {\"type\": \"function\", "
                        "\"function\": {\"name\": ...}}, or \"allowed_tools\"",
                        choice));
    }
    if (policy_.demanded() && !tools)
      Fail(net::BadRequest("tool_choice", "'tool_choice': a call is demanded, but 'tools' declares none"));
  }

  void ReadAllowed(const ordered_json& choice) {
    const ordered_json* inner = Member(choice, "allowed_tools");
    if (inner == nullptr) inner = &choice;
    const std::string mode = TextMember(*inner, "mode");
    const ordered_json* list = Member(*inner, "tools");
    if ((mode != "auto" && mode != "required") || list == nullptr || !list->is_array() || list->empty()) {
      return Fail(Wrong("tool_choice",
                        "allowed_tools with a mode of \"auto\" or \"required\" and a list of tools", choice));
    }
    if (mode == "required") policy_.choice = Choice::kRequired;
    for (const ordered_json& tool : *list) {
      allowed_.push_back(FunctionName(tool));
      if (allowed_.back().empty()) return Fail(Wrong("tool_choice", "functions with names", tool));
    }
  }

  void ReadTools() {
    for (const ordered_json& tool : fields_.tools) ReadFunction(tool["function"]);
    for (const std::string& name : allowed_) {
      if (std::none_of(policy_.calls.begin(), policy_.calls.end(),
                       [&](const DeclaredCall& call) { return call.name == name; })) {
        Fail(net::BadRequest("tool_choice",
                             fmt::format("'tool_choice': 'tools' declares no function {}", name)));
      }
    }
  }

  void ReadFunction(const ordered_json& function) {
    const std::string name = TextMember(function, "name");
    NUMOE_CHECK(!name.empty()) << "CheckDeclaredFunctions has checked it";
    if (!allowed_.empty() && std::find(allowed_.begin(), allowed_.end(), name) == allowed_.end()) return;
    DeclaredCall call{name, {text::GrammarSource::Kind::kJsonObject, ""}};
    const ordered_json* strict = Member(function, "strict");
    if (policy_.demanded() || (strict != nullptr && *strict == true)) {
      call.arguments = {text::GrammarSource::Kind::kJsonSchema,
                        ArgumentsSchema(Member(function, "parameters")).dump()};
    }
    policy_.calls.push_back(std::move(call));
  }

  const ToolFields& fields_;
  CallPolicy policy_;
  std::vector<std::string> allowed_;  // empty if all tools are allowed
  std::optional<net::ApiError> error_;
};

}  // namespace

std::variant<CallPolicy, net::ApiError> ReadCallPolicy(const ToolFields& fields) {
  return PolicyReader(fields).Read();
}

}  // namespace numoe::serving
