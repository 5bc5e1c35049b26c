#include "coordinator/router/prompt_prefix.h"

#include <algorithm>
#include <bit>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/json/json_reader.h"

namespace numoe::router {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMarksPerDoubling = 16;
static_assert(std::has_single_bit(kMarksPerDoubling));
constexpr char kEndOfText = '\x1f';

// In the order in which templates render the fields. A request has the names of its API only.
constexpr const char* kPromptFields[] = {"tools", "system", "instructions", "messages",
                                         "input", "prompt", "text",         "input_ids"};
// Anthropic's clients move this field to another message with every turn of a conversation.
constexpr std::string_view kIgnoredField = "cache_control";

size_t StepAfter(size_t bytes) { return std::max(std::bit_floor(bytes) / kMarksPerDoubling, size_t{16}); }

uint64_t Hash(uint64_t before, std::string_view text) {
  return absl::HashOf(before, absl::string_view(text.data(), text.size()));
}

std::vector<const ordered_json*> FieldsByName(const ordered_json& object) {
  NUMOE_DCHECK(object.is_object());
  std::vector<std::pair<std::string_view, const ordered_json*>> fields;
  for (const auto& [name, value] : object.items())
    if (name != kIgnoredField) fields.emplace_back(name, &value);
  std::sort(fields.begin(), fields.end());
  std::vector<const ordered_json*> values;
  for (const auto& field : fields) values.push_back(field.second);
  return values;
}

// The texts of a value, in an order that does not depend on how the client sorts its fields.
// ParseBoundedJson bounds the depth.
void AppendTexts(const ordered_json& value, std::string& text) {
  if (value.is_string()) {
    text += value.get_ref<const std::string&>();
    text += kEndOfText;
  } else if (value.is_array()) {
    for (const ordered_json& item : value) AppendTexts(item, text);
  } else if (value.is_object()) {
    for (const ordered_json* const field : FieldsByName(value)) AppendTexts(*field, text);
  } else if (!value.is_null()) {
    text += value.dump();
    text += kEndOfText;
  }
}

std::string StringField(const ordered_json& body, const char* name) {
  const auto it = body.find(name);
  return it != body.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

size_t MarkBytes(size_t index) {
  size_t bytes = 0;
  for (size_t i = 0; i <= index; ++i) bytes += StepAfter(bytes);
  return bytes;
}

PromptPrefix ReadPromptPrefix(std::string_view body) {
  PromptPrefix prefix;
  const auto parsed = ParseBoundedJson(body);
  if (!parsed.ok() || !parsed->is_object()) return prefix;
  std::string text;
  for (const char* const name : kPromptFields) {
    if (const auto it = parsed->find(name); it != parsed->end()) AppendTexts(*it, text);
  }
  prefix.bytes = text.size();
  prefix.previous_response_id = StringField(*parsed, "previous_response_id");
  uint64_t hash = Hash(Hash(0, StringField(*parsed, "model")), StringField(*parsed, "cache_salt"));
  const std::string_view all = text;
  for (size_t begin = 0; begin + StepAfter(begin) <= all.size();) {
    const size_t step = StepAfter(begin);
    hash = Hash(hash, all.substr(begin, step));
    prefix.marks.push_back(hash);
    begin += step;
  }
  return prefix;
}

}  // namespace numoe::router
