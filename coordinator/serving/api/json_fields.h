// JsonFields: typed access to the fields of a request, which keeps the first error.
//
// A field that is missing or null leaves `out` as it is. A wrong type or value is an ApiError (400) that
// names the field, or the place in it ("stop[3]"), and says what was expected and what was found. `path`
// prefixes the names: "sampling_params.". An integer may be written as 4.0: JSON has one kind of number.
#pragma once

#include <fmt/format.h>

#include <optional>
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

  /// Null if missing or null.
  const nlohmann::ordered_json* Get(const char* name) const;
  /// The same, or an error unless it is an object or a list.
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
  /// The same; what is not there stays none.
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
  /// A string, or a list of them; none of them empty.
  void Strings(const char* name, size_t count_max, std::vector<std::string>& out);

  /// Fails if the field is there without `instead`, which is what this API calls it.
  void Misplaced(const char* name, const char* instead);
  void Fail(const std::string& name, const std::string& expected);
  void Fail(net::ApiError error);
  /// Takes over the error of fields within these.
  void Take(const JsonFields& inner);
  const std::optional<net::ApiError>& error() const { return error_; }

  /// At most 60 bytes of a value, for messages.
  static std::string Short(const nlohmann::ordered_json& value);
  /// The value where it is an integer of 64 bits, also one that is written with a point.
  static std::optional<int64_t> ReadInteger(const nlohmann::ordered_json& value);
  /// True and filled if the value is a list of token ids.
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
  std::optional<net::ApiError> error_;
};

}  // namespace numoe::serving
