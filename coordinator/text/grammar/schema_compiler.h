// SchemaCompiler: translates JSON Schema into expressions, with a method or class for each kind of value
// (schema_strings.h, schema_objects.h).
//
// A list of schemas that must all hold is translated into facts (schema_facts.h), and the facts into an
// expression. Lists that are reached through a reference become rules, which are named and found by their
// JSON pointers; that ends recursion, and a schema with several references is translated once. After the
// first error every method returns kNever. Belongs to one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/text/grammar/schema_strings.h"

namespace numoe::text::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const nlohmann::ordered_json& root, const GrammarLimits& limits, Expressions& expressions)
      : shared_(root, limits, expressions), e_(expressions), json_(shared_.json()), strings_(shared_) {}

  absl::StatusOr<RuleId> Run();

 private:
  ExprId Schema(Schemas schemas);
  ExprId FromFacts(const SchemaFacts& facts);
  ExprId Alternatives(const SchemaFacts& facts);
  ExprId Values(const SchemaFacts& facts);
  bool ValueHolds(const nlohmann::ordered_json& value, const SchemaFacts& facts);
  ExprId Number(const SchemaFacts& facts, bool fractions);
  ExprId Object(const SchemaFacts& facts);
  ExprId Array(const SchemaFacts& facts);
  ExprId UniformArray(ExprId item, int64_t min, int64_t max);

  SharedCompilation shared_;
  Expressions& e_;
  JsonSyntax& json_;
  StringCompiler strings_;
  size_t branches_ = 0;
  std::map<std::string, RuleId> rules_;  // by the JSON pointers of a list of schemas
  std::vector<std::pair<RuleId, SchemaFacts>> pending_;
};

}  // namespace numoe::text::grammar
