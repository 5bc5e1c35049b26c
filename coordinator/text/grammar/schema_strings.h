// StringCompiler: what a schema says about strings, as machines over what stands between their quotes.
//
// Patterns, formats, lengths and property names are machines in canonical characters, which are narrowed by
// each other; a string of a schema is an expression of the machine that is left. Machines of patterns are
// remembered. Errors go to the shared compilation, which outlives it; after one, machines match nothing. One
// thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "coordinator/text/grammar/shared_compilation.h"

namespace numoe::text::grammar {

/// What may stand between the quotes, in canonical characters; null: anything.
using StringMachine = std::shared_ptr<const Dfa>;

class StringCompiler {
 public:
  explicit StringCompiler(SharedCompilation& shared)
      : shared_(shared), e_(shared.expressions()), json_(shared.json()) {}

  ExprId Expression(const SchemaFacts& facts);
  /// Whether it is one of the strings that `facts` allow.
  bool Holds(const std::string& text, const SchemaFacts& facts);
  /// What propertyNames allows.
  StringMachine OfKeys(const SchemaFacts& facts);
  /// Never null.
  StringMachine OfPattern(const std::string& pattern, const std::string& pointer);
  /// `machine` becomes what it is together with `by`, which an error of `place` may stand for.
  void Narrow(StringMachine& machine, absl::StatusOr<StringMachine> by, Combination how,
              const std::string& place);

 private:
  StringMachine Machine(const SchemaFacts& facts);

  SharedCompilation& shared_;
  Expressions& e_;
  JsonSyntax& json_;
  std::map<std::string, StringMachine> pattern_machines_;  // by pattern
};

}  // namespace numoe::text::grammar
