// SharedCompilation: the state that the parts of a schema's compilation share.
//
// It has the schema's reader, the limits, the expressions, and the first error. After an error every part
// returns kNever, and the compilation fails with that error. The schema, limits and expressions must outlive
// this object, which belongs to one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/schema_facts.h"

namespace numoe::text::grammar {

/// No context is large enough for a million items, members or characters of a string. Where counting copies
/// states, the limit of states is reached far earlier.
inline constexpr int64_t kCountMax = 1'000'000;
/// Characters of strings are counted at run time, so a bound costs nothing. With tokens of a hundred blanks a
/// million characters are possible, but never a billion.
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
  /// Records the error, if it is the first. Returns kNever, so that callers can return the result.
  ExprId Fail(absl::Status status);

  /// Adds the constraints of all `schemas` to `facts`.
  void Absorb(const Schemas& schemas, SchemaFacts& facts);
  /// Returns the least length or count as an int; fails above kCountMax. `place` is its place in the schema.
  int Least(int64_t value, const std::string& place);
  /// Returns the greatest length or count; kUnbounded above `most`, which no text reaches.
  static int Greatest(int64_t value, int64_t most);
  /// Returns `item` for a repetition of `min` to `max` times. Counted repetitions copy their item, so a large
  /// item is replaced by a call of a rule, which is a small copy.
  ExprId CountedItem(ExprId item, int64_t min, int64_t max);

 private:
  const SchemaReader reader_;
  const GrammarLimits& limits_;
  Expressions& e_;
  JsonSyntax json_;
  absl::Status status_;
};

}  // namespace numoe::text::grammar
