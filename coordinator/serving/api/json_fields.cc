#include "coordinator/serving/api/json_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/base/check.h"

namespace numoe::serving {

using nlohmann::ordered_json;

namespace {

std::optional<TokenId> ReadToken(const ordered_json& value) {
  const std::optional<int64_t> id = JsonFields::ReadInteger(value);
  if (!id || *id < 0 || *id > INT32_MAX) return std::nullopt;
  return static_cast<TokenId>(*id);
}

}  // namespace

const ordered_json* JsonFields::Get(const char* name) const {
  const auto it = root_.find(name);
  if (it == root_.end() || it->is_null()) return nullptr;
  read_.emplace(name);
  return &*it;
}

const ordered_json* JsonFields::Object(const char* name) {
  const ordered_json* value = Get(name);
  if (value == nullptr || value->is_object()) return value;
  Fail(name, "an object, found " + Short(*value));
  return nullptr;
}

const ordered_json* JsonFields::Array(const char* name) {
  const ordered_json* value = Get(name);
  if (value == nullptr || value->is_array()) return value;
  Fail(name, "a list, found " + Short(*value));
  return nullptr;
}

void JsonFields::Bool(const char* name, bool& out) {
  const ordered_json* value = Get(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Fail(name, "true or false, found " + Short(*value));
  out = value->get<bool>();
}

void JsonFields::String(const char* name, std::string& out) {
  const ordered_json* value = Get(name);
  if (value == nullptr) return;
  if (!value->is_string()) return Fail(name, "a string, found " + Short(*value));
  out = value->get<std::string>();
}

void JsonFields::Tokens(const char* name, std::vector<TokenId>& out) {
  const ordered_json* value = Array(name);
  if (value == nullptr || ReadTokens(*value, out)) return;
  const auto wrong =
      std::find_if(value->begin(), value->end(), [](const ordered_json& id) { return !ReadToken(id); });
  NUMOE_CHECK(wrong != value->end()) << "ReadTokens accepts every list of token ids";
  Fail(fmt::format("{}[{}]", name, wrong - value->begin()), "a token id, found " + Short(*wrong));
}

void JsonFields::Strings(const char* name, size_t count_max, std::vector<std::string>& out) {
  const ordered_json* value = Get(name);
  if (value == nullptr) return;
  const bool alone = value->is_string();
  const ordered_json list = alone ? ordered_json::array({*value}) : *value;
  if (!list.is_array() || list.size() > count_max)
    return Fail(name,
                fmt::format("a string or a list of at most {} strings, found {}", count_max, Short(*value)));
  for (size_t i = 0; i < list.size(); ++i) {
    const ordered_json& text = list[i];
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      return Fail(alone ? name : fmt::format("{}[{}]", name, i),
                  "a string that is not empty, found " + Short(text));
    }
    out.push_back(text.get<std::string>());
  }
}

void JsonFields::Misplaced(const char* name, const char* instead) {
  NUMOE_DCHECK(std::string_view(name) != instead);
  // Get would mark the field as read; a field that is ignored because `instead` is present must stay unread.
  const auto value = root_.find(name);
  if (value != root_.end() && !value->is_null() && Get(instead) == nullptr)
    Fail(name, fmt::format("{}, which is this API's name for it, found {}", instead, Short(*value)));
}

void JsonFields::Fail(const std::string& name, const std::string& expected) {
  NUMOE_DCHECK(!name.empty() && !expected.empty());
  Fail(net::BadRequest(path_ + name, fmt::format("'{}{}': expected {}", path_, name, expected)));
}

void JsonFields::Fail(net::ApiError error) {
  if (!error_) error_ = std::move(error);
}

void JsonFields::Take(const JsonFields& inner) {
  if (!error_) error_ = inner.error_;
}

std::vector<std::string> JsonFields::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : root_.items()) {
    if (!value.is_null() && read_.count(name) == 0) names.push_back(path_ + name);
  }
  names.insert(names.end(), inner_unread_.begin(), inner_unread_.end());
  return names;
}

void JsonFields::TakeUnread(const JsonFields& inner) {
  NUMOE_DCHECK(&inner != this);
  for (std::string& name : inner.Unread()) inner_unread_.push_back(std::move(name));
}

std::string JsonFields::Short(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 60);
}

std::optional<int64_t> JsonFields::ReadInteger(const ordered_json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  // A double of 2^63 or more may stand for any of the integers that round to it.
  constexpr double kEnd = 0x1p63;
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number > -kEnd && number < kEnd) || std::nearbyint(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

bool JsonFields::ReadTokens(const ordered_json& value, std::vector<TokenId>& out) {
  if (!value.is_array()) return false;
  for (const ordered_json& id : value) {
    const std::optional<TokenId> token = ReadToken(id);
    if (!token) return false;
    out.push_back(*token);
  }
  return true;
}

}  // namespace numoe::serving
