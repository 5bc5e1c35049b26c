#include "coordinator/text/grammar/shared_compilation.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/json/json_reader.h"

namespace numoe::text::grammar {

ExprId SharedCompilation::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return e_.Never();
}

void SharedCompilation::Absorb(const Schemas& schemas, SchemaFacts& facts) {
  for (const SchemaAt& schema : schemas)
    if (status_.ok()) status_ = reader_.Absorb(schema, facts);
}

int SharedCompilation::Least(int64_t value, const std::string& place) {
  NUMOE_DCHECK_GE(value, 0);
  if (value > kCountMax) {
    Fail(absl::InvalidArgumentError(fmt::format(
        "{}: no text matches: no context holds the {} that it demands; lower the minimum to at most {}",
        Printable(place), value, kCountMax)));
  }
  return static_cast<int>(std::min(value, kCountMax));
}

int SharedCompilation::Greatest(int64_t value, int64_t most) {
  NUMOE_DCHECK(value >= 0 && most <= kCharactersMax);
  return value > most ? kUnbounded : static_cast<int>(value);
}

ExprId SharedCompilation::CountedItem(ExprId item, int64_t min, int64_t max) {
  NUMOE_DCHECK(0 <= min && min <= max);
  if (min <= 1 && (max == kNoMaximum || max == 1)) return item;
  const RuleId rule = e_.AddRule("item", true);
  e_.SetBody(rule, item);
  return e_.Call(rule);
}

}  // namespace numoe::text::grammar
