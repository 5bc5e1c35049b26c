// JsonFields: typed access to the fields of a request; keeps the first error.
//
// A field that is missing or null leaves `out` unchanged. A wrong type or value is an ApiError (400) that
// names the field, or the place in it ("stop[3]"), and says what was expected and what was found. `path` is
// put before the names: "sampling_params.". An integer may be written as 4.0, because JSON has only one kind
// of number.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"
#include "coordinator/net/http/api_error.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

class JsonFields {
 public:
  /// REQUIRES: root is an object, and outlives this.
  explicit JsonFields(const nlohmann::ordered_json& root, std::string path = "")
      : root_(root), path_(std::move(path)) {
    NUMOE_CHECK(root_.is_object()) << path_;
  }

  /// Null if the field is missing or null.
  const nlohmann::ordered_json* Get(const char* name) const;
  /// The same, with an error unless the field is an object, or a list.
  const nlohmann::ordered_json* Object(const char* name);
  const nlohmann::ordered_json* Array(const char* name);

  template <typename T>
  void Number(const char* name, double low, double high, T& out) {
    NUMOE_DCHECK_LE(low, high);
    const nlohmann::ordered_json* value = Get(name);
    if (value == nullptr) return;
    const auto number = ReadNumber<T>(*value);
    if (!number || !(static_cast<double>(*number) >= low && static_cast<double>(*number) <= high)) {
      return Fail(name,
                  fmt::format("{} from {} to {}, found {}", std::is_integral_v<T> ? "an integer" : "a number",
                              low, high, Short(*value)));
    }
    out = static_cast<T>(*number);
  }
  /// The same; `out` stays nullopt if the field is missing or null.
  template <typename T>
  void Number(const char* name, double low, double high, std::optional<T>& out) {
    if (Get(name) == nullptr) return;
    T number{};
    Number(name, low, high, number);
    out = number;
  }
  void Bool(const char* name, bool& out);
  void String(const char* name, std::string& out);
  void Tokens(const char* name, std::vector<TokenId>& out);
  /// Reads a string, or a list of them; none may be empty.
  void Strings(const char* name, size_t count_max, std::vector<std::string>& out);

  /// Fails if the field is present without `instead`, which is this API's name for it.
  void Misplaced(const char* name, const char* instead);
  void Fail(const std::string& name, const std::string& expected);
  void Fail(net::ApiError error);
  /// Takes over the error of `inner`, which has read an object within these fields.
  void Take(const JsonFields& inner);
  const std::optional<net::ApiError>& error() const { return error_; }
  /// The fields that none of these functions has looked up, with their path and in the request's order; null
  /// ones are left out. Fields within `inner` objects are included only after TakeUnread.
  std::vector<std::string> Unread() const;
  void TakeUnread(const JsonFields& inner);

  /// At most 60 bytes of a value, for messages.
  static std::string Short(const nlohmann::ordered_json& value);
  /// Returns the value if it is an integer of 64 bits, also if it is written with a decimal point.
  static std::optional<int64_t> ReadInteger(const nlohmann::ordered_json& value);
  /// Appends the ids and returns true if the value is a list of token ids.
  static bool ReadTokens(const nlohmann::ordered_json& value, std::vector<TokenId>& out);

 private:
  template <typename T>
  static auto ReadNumber(const nlohmann::ordered_json& value) {
    if constexpr (std::is_integral_v<T>) {
      return ReadInteger(value);
    } else {
      return value.is_number() ? std::optional(value.get<T>()) : std::nullopt;
    }
  }

  const nlohmann::ordered_json& root_;
  const std::string path_;
  mutable std::set<std::string, std::less<>> read_;  // fields that were looked up
  std::vector<std::string> inner_unread_;
  std::optional<net::ApiError> error_;
};

}  // namespace numoe::serving
