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
constexpr const char* kSwitches[] = {"thinking", "enable_thinking"};  // variables of templates
// Variables that come from fields of the request or from the server (vLLM refuses the last two as well).
constexpr const char* kNoTemplateVariables[] = {
    "messages",      "tools",   "documents", "add_generation_prompt", "continue_final_message",
    "chat_template", "tokenize"};

class ThinkingReader {
 public:
  ThinkingReader(JsonFields& in, ordered_json& template_kwargs) : in_(in), kwargs_(template_kwargs) {}

  void Read() {
    if (const ordered_json* given = in_.Object("chat_template_kwargs"); given != nullptr) {
      kwargs_ = *given;
      CheckVariables();
      for (const char* name : kSwitches) {
        const auto value = kwargs_.find(name);
        if (value != kwargs_.end() && value->is_boolean())
          Switch(std::string("chat_template_kwargs.") + name, value->get<bool>());
      }
    }
    ReadThinkingObject();
    ReadSwitch(in_, "enable_thinking", "enable_thinking");
    ReadEffort(in_, "reasoning_effort", effort_);
    if (const ordered_json* reasoning = in_.Object("reasoning"); reasoning != nullptr) {
      JsonFields inner(*reasoning, "reasoning.");
      ReadSwitch(inner, "enabled", "reasoning.enabled");
      ReadEffort(inner, "effort", effort_);
      if (inner.Get("max_tokens") != nullptr) {
        inner.Number("max_tokens", 0, INT32_MAX, budget_.emplace());
        if (*budget_ > 0 && !on_ && effort_.empty()) Switch("reasoning.max_tokens", true);
      }
      inner.Bool("exclude", excluded_);
      in_.Take(inner);
    }
    ReadOutputConfig();
    // A variable that the client has given to the template itself is not changed.
    if (on_ && on_from_.rfind("chat_template_kwargs.", 0) != 0) Set(*on_);
    if (!effort_.empty() && !on_) Set(effort_ != "none");
    const std::string& effort = effort_.empty() ? output_effort_ : effort_;
    if (effort.empty()) return;
    if (kwargs_.is_null()) kwargs_ = ordered_json::object();
    if (!kwargs_.contains("reasoning_effort")) kwargs_["reasoning_effort"] = effort;
  }

  std::optional<int> budget() const { return budget_; }
  bool excluded() const { return excluded_; }
  bool Thinks() const { return on_.value_or(adaptive_ || (!effort_.empty() && effort_ != "none")); }
  /// The request mentions thinking, even if it leaves the decision to the model.
  bool asked() const { return on_.has_value() || adaptive_ || !effort_.empty(); }
  void SwitchOff() { Set(false); }

 private:
  void CheckVariables() {
    for (const char* name : kNoTemplateVariables) {
      if (!kwargs_.contains(name)) continue;
      in_.Fail(std::string("chat_template_kwargs.") + name,
               "no such variable, because it comes from another field of the request, or from the server");
    }
  }

  void Switch(const std::string& name, bool on) {
    if (on_ && *on_ != on) {
      return in_.Fail(name, fmt::format("the same as '{}', which switches thinking {}, found the opposite",
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

  // "adaptive" leaves the decision to the model, as without the field.
  void ReadThinkingObject() {
    const ordered_json* thinking = in_.Object("thinking");
    if (thinking == nullptr) return;
    const ordered_json type = thinking->value("type", ordered_json());
    adaptive_ = type == "adaptive";
    if (adaptive_) return;
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

  // Anthropic's effort applies to the whole answer, and switches thinking neither on nor off.
  void ReadOutputConfig() {
    const ordered_json* config = in_.Object("output_config");
    if (config == nullptr) return;
    JsonFields inner(*config, "output_config.");
    ReadEffort(inner, "effort", output_effort_);
    in_.Take(inner);
  }

  void ReadEffort(JsonFields& in, const char* name, std::string& out) {
    std::string effort;
    in.String(name, effort);
    if (effort.empty()) return;
    if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
      return in.Fail(name,
                     fmt::format("one of {}, found \"{}\"", fmt::join(kEfforts, ", "), effort.substr(0, 40)));
    }
    if (out.empty()) out = std::move(effort);
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
  std::string on_from_;  // the field that has set on_
  bool adaptive_ = false;
  bool excluded_ = false;  // the model may think, but the reasoning is not returned
  std::string effort_, output_effort_;
  std::optional<int> budget_;  // tokens
};

}  // namespace

void ReadThinking(JsonFields& in, GenerationRequest& out, UnaskedThinking unasked) {
  NUMOE_CHECK(out.conversation.has_value());
  ThinkingReader reader(in, out.conversation->template_kwargs);
  reader.Read();
  if (unasked == UnaskedThinking::kOff) {
    if (!reader.asked()) reader.SwitchOff();
    out.include_reasoning = reader.Thinks();
  }
  if (reader.excluded()) out.include_reasoning = false;
  if (!reader.budget()) return;
  out.thinking_budget = reader.budget();
  out.thinking_budget_param = "thinking";
}

bool ThinkingIsOff(const ordered_json& body, UnaskedThinking unasked) {
  JsonFields in(body);
  ordered_json kwargs;
  ThinkingReader reader(in, kwargs);
  reader.Read();
  if (unasked == UnaskedThinking::kOff && !reader.asked()) return true;
  return kwargs.is_object() && std::any_of(std::begin(kSwitches), std::end(kSwitches), [&](const char* name) {
           const auto value = kwargs.find(name);
           return value != kwargs.end() && *value == false;
         });
}

}  // namespace numoe::serving
