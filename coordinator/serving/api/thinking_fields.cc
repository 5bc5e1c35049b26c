#include "coordinator/serving/api/thinking_fields.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
constexpr const char* kSwitches[] = {"thinking", "enable_thinking"};  // of templates

class ThinkingReader {
 public:
  ThinkingReader(JsonFields& in, ordered_json& template_kwargs) : in_(in), kwargs_(template_kwargs) {}

  void Read() {
    if (const ordered_json* given = in_.Object("chat_template_kwargs"); given != nullptr) {
      kwargs_ = *given;
      for (const char* name : kSwitches) {
        const auto value = kwargs_.find(name);
        if (value != kwargs_.end() && value->is_boolean())
          Switch(std::string("chat_template_kwargs.") + name, value->get<bool>());
      }
    }
    ReadThinkingObject();
    ReadSwitch(in_, "enable_thinking", "enable_thinking");
    ReadEffort(in_, "reasoning_effort");
    if (const ordered_json* reasoning = in_.Object("reasoning"); reasoning != nullptr) {
      JsonFields inner(*reasoning, "reasoning.");
      ReadSwitch(inner, "enabled", "reasoning.enabled");
      ReadEffort(inner, "effort");
      in_.Take(inner);
    }
    // What the client told the template by itself stays as it is.
    if (on_ && on_from_.rfind("chat_template_kwargs.", 0) != 0) Set(*on_);
    if (effort_.empty()) return;
    if (!on_) Set(effort_ != "none");
    if (!kwargs_.contains("reasoning_effort")) kwargs_["reasoning_effort"] = effort_;
  }

  std::optional<int> budget() const { return budget_; }

 private:
  void Switch(const std::string& name, bool on) {
    if (on_ && *on_ != on) {
      return in_.Fail(name, fmt::format("what '{}' says, which switches thinking {}, found the opposite",
                                        on_from_, *on_ ? "on" : "off"));
    }
    if (on_) return;
    on_ = on;
    on_from_ = name;
  }

  void ReadSwitch(JsonFields& in, const char* name, const std::string& path) {
    bool on = false;
    in.Bool(name, on);
    if (in.Get(name) != nullptr && !in.error()) Switch(path, on);
  }

  // "adaptive" leaves it to the model, as it is without the field.
  void ReadThinkingObject() {
    const ordered_json* thinking = in_.Object("thinking");
    if (thinking == nullptr) return;
    const ordered_json type = thinking->value("type", ordered_json());
    if (type == "adaptive") return;
    if (type != "enabled" && type != "disabled") {
      return in_.Fail("thinking.type",
                      "\"enabled\", \"disabled\" or \"adaptive\", found " + JsonFields::Short(type));
    }
    Switch("thinking", type == "enabled");
    JsonFields inner(*thinking, "thinking.");
    if (type == "enabled" && inner.Get("budget_tokens") != nullptr) {
      int tokens = 0;
      inner.Number("budget_tokens", 0, INT32_MAX, tokens);
      budget_ = tokens;
    }
    in_.Take(inner);
  }

  void ReadEffort(JsonFields& in, const char* name) {
    std::string effort;
    in.String(name, effort);
    if (effort.empty()) return;
    if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
      return in.Fail(name,
                     fmt::format("one of {}, found \"{}\"", fmt::join(kEfforts, ", "), effort.substr(0, 40)));
    }
    if (effort_.empty()) effort_ = std::move(effort);
  }

  void Set(bool on) {
    if (kwargs_.is_null()) kwargs_ = ordered_json::object();
    for (const char* name : kSwitches) {
      if (!kwargs_.contains(name)) kwargs_[name] = on;
    }
  }

  JsonFields& in_;
  ordered_json& kwargs_;
  std::optional<bool> on_;
  std::string on_from_;  // the field that said so
  std::string effort_;
  std::optional<int> budget_;  // tokens
};

}  // namespace

void ReadThinking(JsonFields& in, GenerationRequest& out) {
  NUMOE_CHECK(out.conversation.has_value());
  ThinkingReader reader(in, out.conversation->template_kwargs);
  reader.Read();
  if (!reader.budget()) return;
  out.thinking_budget = reader.budget();
  out.thinking_budget_param = "thinking";
}

bool ThinkingIsOff(const ordered_json& body) {
  JsonFields in(body);
  ordered_json kwargs;
  ThinkingReader(in, kwargs).Read();
  return kwargs.is_object() && std::any_of(std::begin(kSwitches), std::end(kSwitches), [&](const char* name) {
           const auto value = kwargs.find(name);
           return value != kwargs.end() && *value == false;
         });
}

}  // namespace numoe::serving
