// StringCompiler: translates a schema's constraints on strings into machines over the text between the
// quotes.
//
// Each pattern, format, length and property name is a machine over canonical characters. These machines are
// intersected, and the string's expression contains the result. Machines of patterns are cached. Errors go to
// the shared compilation, which must outlive this object; after an error, machines match nothing. Belongs to
// one thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "coordinator/text/grammar/shared_compilation.h"

namespace numoe::text::grammar {

/// Matches the text that may be between the quotes, in canonical characters; null if any text is allowed.
using StringMachine = std::shared_ptr<const Dfa>;

class StringCompiler {
 public:
  explicit StringCompiler(SharedCompilation& shared)
      : shared_(shared), e_(shared.expressions()), json_(shared.json()) {}

  ExprId Expression(const SchemaFacts& facts);
  /// Whether `facts` allow the string `text`.
  bool Holds(const std::string& text, const SchemaFacts& facts);
  /// Returns the machine for the keys that propertyNames allows.
  StringMachine OfKeys(const SchemaFacts& facts);
  /// Returns the machine for a pattern; it is never null.
  StringMachine OfPattern(const std::string& pattern, const std::string& pointer);
  /// Replaces `machine` by its combination with `by`. If `by` is an error, the compilation fails with it and
  /// names `place`.
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
