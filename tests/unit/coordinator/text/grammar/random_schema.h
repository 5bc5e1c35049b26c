// Random JSON schemas of the supported kind, and random documents for them, for property tests.
//
// Documents are written without the compiler: members in declared order, optional spaces after commas and
// colons, free strings with any escapes. All random numbers come from the given generator. Use from one
// thread.
#pragma once

#include <random>
#include <string>

#include "nlohmann/json.hpp"

namespace numoe::text {

class RandomSchema {
 public:
  explicit RandomSchema(uint64_t seed);

  const nlohmann::ordered_json& schema() const { return root_; }
  /// A text that the schema must accept.
  std::string Document();

 private:
  using Json = nlohmann::ordered_json;

  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(int percent) { return Below(100) < static_cast<size_t>(percent); }

  Json Any(int depth);
  Json Scalar();
  Json StringSchema();
  Json NumberSchema(bool integer);
  Json ArraySchema(int depth);
  Json ObjectSchema(int depth);
  Json Combination(int depth);

  std::string Write(const Json& schema, int depth);
  std::string WriteExactly(const Json& value);
  std::string WriteString(const Json& schema);
  std::string WriteNumber(const Json& schema);
  std::string WriteArray(const Json& schema, int depth);
  std::string WriteObject(const Json& schema, int depth);
  std::string WriteAnything(int depth);
  std::string FreeString(size_t min, size_t max);
  std::string Separator(const char* sign) { return sign + std::string(Chance(50) ? " " : ""); }

  std::mt19937_64 random_;
  Json root_;
  int names_ = 0;
};

}  // namespace numoe::text
