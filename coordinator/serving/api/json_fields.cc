#include "coordinator/serving/api/json_fields.h"

#include "common/base/check.h"

namespace numoe::serving {

using nlohmann::ordered_json;

const ordered_json* JsonFields::Get(const char* name) const {
  const auto it = root_.find(name);
  return it == root_.end() || it->is_null() ? nullptr : &*it;
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
  const ordered_json* value = Get(name);
  if (value != nullptr && !ReadTokens(*value, out)) Fail(name, "a list of token ids, found " + Short(*value));
}

void JsonFields::Strings(const char* name, size_t count_max, std::vector<std::string>& out) {
  const ordered_json* value = Get(name);
  if (value == nullptr) return;
  const ordered_json list = value->is_string() ? ordered_json::array({*value}) : *value;
  if (!list.is_array() || list.size() > count_max)
    return Fail(name,
                fmt::format("a string or a list of at most {} strings, found {}", count_max, Short(*value)));
  for (const ordered_json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      return Fail(name, "strings that are not empty, found " + Short(text));
    out.push_back(text.get<std::string>());
  }
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

std::string JsonFields::Short(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 60);
}

bool JsonFields::ReadTokens(const ordered_json& value, std::vector<TokenId>& out) {
  if (!value.is_array()) return false;
  for (const ordered_json& id : value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) return false;
    out.push_back(id.get<TokenId>());
  }
  return true;
}

}  // namespace numoe::serving
