// SchemaFacts: the constraints on a value by a set of JSON schemas that must all hold, keyword by keyword.
//
// A schema with allOf, $ref and other keywords is one set of facts, which each keyword narrows. anyOf and
// oneOf remain lists of alternatives; the compiler combines each alternative with the other facts.
// Sub-schemas are kept as a schema and its place, and are read when they are compiled, so recursive schemas
// need no special treatment here. A keyword that is an assertion and not supported is UNIMPLEMENTED, a
// malformed one INVALID_ARGUMENT, both with the JSON pointer of its place. Unknown keywords and formats are
// annotations, as the specification says. Belongs to one thread.
//
// Source: https://json-schema.org/draft/2020-12, with draft 7's spellings (definitions, array-valued items,
// additionalItems) and OpenAPI's nullable.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/text/grammar/json_numbers.h"
#include "nlohmann/json.hpp"

namespace numoe::text::grammar {

enum JsonTypes : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,  // numbers that are not integers; "number" is both
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAllTypes = 127,
};

struct SchemaAt {
  const nlohmann::ordered_json* schema = nullptr;
  std::string pointer;  // "#/properties/a"
};
using Schemas = std::vector<SchemaAt>;

inline constexpr int64_t kNoMaximum = std::numeric_limits<int64_t>::max();

struct SchemaFacts {
  struct Text {
    std::string text;
    std::string pointer;
  };
  struct ArrayPart {
    Schemas prefix;
    std::optional<SchemaAt> rest;  // the schema of later items; nullopt if they may be anything
  };
  struct ObjectPart {
    std::vector<std::pair<std::string, SchemaAt>> properties;
    std::vector<std::pair<std::string, SchemaAt>> patterns;
    std::optional<SchemaAt> additional;
  };

  bool never = false;
  uint8_t types = kAllTypes;
  bool types_given = false;
  uint8_t implied_types = 0;  // the types of keywords that are about one type only
  std::optional<std::vector<nlohmann::ordered_json>> values;  // by enum or const

  int64_t length_min = 0, length_max = kNoMaximum;
  std::vector<Text> patterns, formats;

  NumberBounds bounds;

  std::vector<ArrayPart> arrays;
  int64_t items_min = 0, items_max = kNoMaximum;
  std::optional<std::string> unique_items;  // the place of uniqueItems: true

  std::vector<ObjectPart> objects;
  std::vector<std::string> required;
  int64_t properties_min = 0, properties_max = kNoMaximum;
  Schemas property_names;
  bool closed = false;  // unevaluatedProperties: false

  std::vector<Schemas> choices;  // one schema of each list must hold
  bool used_ref = false;
  std::string pointer;  // the place of the first schema, for errors

  /// Whether nothing constrains the type or value except `choices`.
  bool only_choices() const {
    return types == kAllTypes && implied_types == 0 && !values.has_value() && !never;
  }
  /// The types that a value may have. Without "type", these are the types that the schema's keywords are
  /// about.
  uint8_t effective_types() const {
    return types_given || implied_types == 0 ? types : types & implied_types;
  }
};

class SchemaReader {
 public:
  /// `root` must outlive this object and all SchemaAt made from it.
  explicit SchemaReader(const nlohmann::ordered_json& root);

  SchemaAt root() const { return {&root_, "#"}; }
  /// Adds the constraints of `schema` to `facts`. After an error `facts` is incomplete and must not be used.
  absl::Status Absorb(const SchemaAt& schema, SchemaFacts& facts) const;
  /// Returns the schema at the end of a chain of references without other keywords; `schema` itself if it is
  /// not such a reference.
  absl::StatusOr<SchemaAt> Dereference(SchemaAt schema) const;

 private:
  class Absorber;
  absl::StatusOr<SchemaAt> Resolve(const SchemaAt& schema) const;

  const nlohmann::ordered_json& root_;
  std::map<std::string, SchemaAt> anchors_;
};

}  // namespace numoe::text::grammar
