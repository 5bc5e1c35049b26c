// Reads the fields of one JSON object of a configuration file, and checks their types and ranges, so that the
// code for a model family is a list of fields.
//
// Each function takes the accepted spellings of a field; the first one that is present and not null counts.
// The first error is kept in status(), and later ones are dropped. After an error a function returns its
// fallback or a value inside the range; the caller checks status() once, before it uses what it read.
// Messages: FILE: FIELD is FOUND, expected ... It refers to the JSON and the file's name, which it does not
// own. Not thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace numoe {

class ConfigFields {
 public:
  using Names = std::initializer_list<const char*>;

  /// `prefix` is the path of the object within the file: "text_config.", or "" for the root.
  ConfigFields(const nlohmann::json& object, std::string_view file, std::string prefix = "");

  const absl::Status& status() const { return status_; }
  std::string_view file() const { return file_; }
  /// Returns "text_config.rope_scaling." for the object in field `name`.
  std::string PrefixOf(std::string_view name) const;

  /// Returns the name under which a field is present; nullptr if it is absent or null in every spelling.
  const char* Spelling(Names names) const;
  /// Returns its value, or nullptr.
  const nlohmann::json* Get(Names names) const;
  /// Like Get, but anything other than an object is an error (and nullptr).
  const nlohmann::json* Object(Names names);

  int64_t Int64(Names names, int64_t low, int64_t high, std::optional<int64_t> fallback = {});
  int Int(Names names, int low, int high, std::optional<int> fallback = {});
  double Double(Names names, double low, double high, std::optional<double> fallback = {});
  bool Bool(Names names, std::optional<bool> fallback = {});
  std::string String(Names names, std::optional<std::string> fallback = {});
  /// Reads a token id or a list of them, each below `vocab_size`, and appends to `ids` those that it does not
  /// contain yet.
  void Tokens(Names names, int vocab_size, std::vector<int32_t>& ids);

  /// Fails unless the field is absent, null or equal to `only`, because this engine does not implement other
  /// values.
  void Only(const char* name, const nlohmann::json& only);
  /// Like Only, but the field must be present.
  void Must(const char* name, const nlohmann::json& only);
  void Fail(Names names, const std::string& found, const std::string& expected);
  /// Takes over the error of `inner`, which reads an object inside this one.
  void Absorb(const ConfigFields& inner) { status_.Update(inner.status_); }

 private:
  void FailWith(Names names, const nlohmann::json* value, const std::string& expected);

  const nlohmann::json& object_;
  const std::string file_;
  const std::string prefix_;
  absl::Status status_;
};

}  // namespace numoe
