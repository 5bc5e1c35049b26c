#include "common/weights/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"

namespace numoe {
namespace {

using nlohmann::json;

std::optional<int64_t> AsInt64(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace

ConfigFields::ConfigFields(const json& object, std::string_view file, std::string prefix)
    : object_(object), file_(file), prefix_(std::move(prefix)) {}

std::string ConfigFields::PrefixOf(std::string_view name) const {
  return fmt::format("{}{}.", prefix_, name);
}

const char* ConfigFields::Spelling(Names names) const {
  for (const char* name : names) {
    const auto it = object_.find(name);
    if (it != object_.end() && !it->is_null()) return name;
  }
  return nullptr;
}

const json* ConfigFields::Get(Names names) const {
  const char* name = Spelling(names);
  return name == nullptr ? nullptr : &*object_.find(name);
}

const json* ConfigFields::Object(Names names) {
  const json* value = Get(names);
  if (value == nullptr || value->is_object()) return value;
  FailWith(names, value, "an object");
  return nullptr;
}

int64_t ConfigFields::Int64(Names names, int64_t low, int64_t high, std::optional<int64_t> fallback) {
  NUMOE_CHECK_LE(low, high);
  const json* value = Get(names);
  if (value == nullptr && fallback) return *fallback;
  const std::optional<int64_t> number = value == nullptr ? std::nullopt : AsInt64(*value);
  if (number && *number >= low && *number <= high) return *number;
  FailWith(names, value, fmt::format("an integer from {} to {}", low, high));
  return low;
}

int ConfigFields::Int(Names names, int low, int high, std::optional<int> fallback) {
  return static_cast<int>(Int64(names, low, high, fallback));
}

double ConfigFields::Double(Names names, double low, double high, std::optional<double> fallback) {
  NUMOE_CHECK_LE(low, high);
  const json* value = Get(names);
  if (value == nullptr && fallback) return *fallback;
  if (value != nullptr && value->is_number()) {
    const double number = value->get<double>();
    if (number >= low && number <= high) return number;
  }
  FailWith(names, value, fmt::format("a number from {} to {}", low, high));
  return low;
}

bool ConfigFields::Bool(Names names, std::optional<bool> fallback) {
  const json* value = Get(names);
  if (value == nullptr && fallback) return *fallback;
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  FailWith(names, value, "true or false");
  return false;
}

std::string ConfigFields::String(Names names, std::optional<std::string> fallback) {
  const json* value = Get(names);
  if (value == nullptr && fallback) return *fallback;
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  FailWith(names, value, "a string");
  return "";
}

void ConfigFields::Tokens(Names names, int vocab_size, std::vector<int32_t>& ids) {
  const json* value = Get(names);
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& entry : list) {
    const std::optional<int64_t> id = AsInt64(entry);
    if (!id || *id < 0 || *id >= vocab_size) {
      return FailWith(names, value, fmt::format("token ids from 0 to {}, below vocab_size", vocab_size - 1));
    }
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(static_cast<int32_t>(*id));
  }
}

void ConfigFields::Only(const char* name, const json& only) {
  const json* value = Get({name});
  if (value != nullptr && *value != only)
    FailWith({name}, value, Brief(only) + ", the only kind this engine computes");
}

void ConfigFields::Must(const char* name, const json& only) {
  if (Get({name}) == nullptr) FailWith({name}, nullptr, Brief(only));
  Only(name, only);
}

void ConfigFields::Fail(Names names, const std::string& found, const std::string& expected) {
  NUMOE_CHECK(names.size() > 0 && !found.empty() && !expected.empty());
  if (!status_.ok()) return;
  const char* name = Spelling(names);
  status_ = absl::InvalidArgumentError(fmt::format("{}: {}{} {}, expected {}", file_, prefix_,
                                                   name == nullptr ? *names.begin() : name, found, expected));
}

void ConfigFields::FailWith(Names names, const json* value, const std::string& expected) {
  Fail(names, value == nullptr ? "is missing" : "is " + Brief(*value), expected);
}

}  // namespace numoe
