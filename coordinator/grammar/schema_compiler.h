// SchemaCompiler: JSON Schema to expressions, one method for each kind of value.
//
// A list of schemas that must all hold becomes facts (schema_facts.h), the facts become an expression. Lists
// that a reference leads to become rules, named and remembered by their JSON pointers; that ends recursion,
// and shares what is referred to often. The first error sticks: after it every method returns kNever. One
// thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/grammar/json_syntax.h"
#include "coordinator/grammar/schema_facts.h"

namespace numoe::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const nlohmann::ordered_json& root, const GrammarLimits& limits, Expressions& expressions)
      : reader_(root), limits_(limits), e_(expressions), json_(expressions) {}

  absl::StatusOr<RuleId> Run();

 private:
  using MachinePtr = std::shared_ptr<const Dfa>;
  struct Member {
    std::string name;
    ExprId value = 0;
    bool required = false;
  };
  struct Members {
    std::vector<Member> declared;
    ExprId extra = 0;  // a key that is none of the declared, a colon and its value
  };

  ExprId Schema(Schemas schemas);
  ExprId FromFacts(const SchemaFacts& facts);
  ExprId Alternatives(const SchemaFacts& facts);
  ExprId Values(const SchemaFacts& facts);
  bool ValueHolds(const nlohmann::ordered_json& value, const SchemaFacts& facts);
  ExprId Number(const SchemaFacts& facts, bool fractions);
  ExprId String(const SchemaFacts& facts);
  /// What may stand between the quotes, in canonical characters; null: anything.
  MachinePtr StringMachine(const SchemaFacts& facts);
  void Narrow(MachinePtr& machine, absl::StatusOr<MachinePtr> by, Combination how, const std::string& place);
  ExprId Array(const SchemaFacts& facts);
  ExprId UniformArray(ExprId item, int64_t min, int64_t max);
  ExprId CountedItem(ExprId item, int64_t min, int64_t max);

  // schema_objects.cc
  ExprId Object(const SchemaFacts& facts);
  ExprId ObjectGraph(const Members& members, int64_t min, int64_t max);
  Members CollectMembers(const SchemaFacts& facts);
  Schemas MemberSchemas(const SchemaFacts& facts, const std::string& name);
  ExprId ExtraMembers(const SchemaFacts& facts, const std::vector<std::string>& declared);
  ExprId ExtraRegion(const SchemaFacts& facts, const std::vector<std::string>& declared,
                     const std::vector<MachinePtr>& patterns, size_t inside);
  MachinePtr KeyMachine(const SchemaFacts& facts);
  MachinePtr PatternMachine(const std::string& pattern, const std::string& pointer);
  bool AllowsExtra(const SchemaFacts& facts) const;

  ExprId Fail(absl::Status status);
  void AbsorbAll(const Schemas& schemas, SchemaFacts& facts);
  int Count(int64_t value, const std::string& place);

  SchemaReader reader_;
  const GrammarLimits& limits_;
  Expressions& e_;
  JsonSyntax json_;
  absl::Status status_;
  size_t branches_ = 0;
  std::map<std::string, RuleId> rules_;  // by the pointers of a list of schemas
  std::vector<std::pair<RuleId, SchemaFacts>> pending_;
  std::map<std::string, MachinePtr> pattern_machines_;  // by pattern
};

}  // namespace numoe::grammar
