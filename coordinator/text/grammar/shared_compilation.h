// SharedCompilation: what the parts of one schema's compilation share.
//
// The schema's reader, the limits, the expressions that are being made, and the first error: after it every
// part returns kNever, and the compilation ends with it. The schema, limits and expressions outlive it. One
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/schema_facts.h"

namespace numoe::text::grammar {

/// A text with a million items, members or characters of one string is more than a context holds; and what is
/// counted by copying has fewer long before.
inline constexpr int64_t kCountMax = 1'000'000;
/// Characters of strings are counted at run time, so that a bound costs nothing. Tokens of a hundred blanks
/// bring a million within reach, but never a billion.
inline constexpr int64_t kCharactersMax = 1'000'000'000;

class SharedCompilation {
 public:
  SharedCompilation(const nlohmann::ordered_json& root, const GrammarLimits& limits, Expressions& expressions)
      : reader_(root), limits_(limits), e_(expressions), json_(expressions) {}

  const SchemaReader& reader() const { return reader_; }
  const GrammarLimits& limits() const { return limits_; }
  Expressions& expressions() { return e_; }
  JsonSyntax& json() { return json_; }

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  /// Returns kNever, for who has an expression to return.
  ExprId Fail(absl::Status status);

  /// What all of `schemas` say, added to `facts`.
  void Absorb(const Schemas& schemas, SchemaFacts& facts);
  /// The least length or count of something: fails above kCountMax. `place` is where the schema says it.
  int Least(int64_t value, const std::string& place);
  /// The greatest one; kUnbounded above `most`, where nothing gets.
  static int Greatest(int64_t value, int64_t most);
  /// `item` for a repetition of `min` to `max` times. Counted repetitions copy what they repeat: a call is a
  /// small copy.
  ExprId CountedItem(ExprId item, int64_t min, int64_t max);

 private:
  const SchemaReader reader_;
  const GrammarLimits& limits_;
  Expressions& e_;
  JsonSyntax json_;
  absl::Status status_;
};

}  // namespace numoe::text::grammar
