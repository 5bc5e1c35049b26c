#include "coordinator/grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/weights/json_reader.h"
#include "coordinator/grammar/front_ends.h"
#include "coordinator/grammar/json_formats.h"
#include "coordinator/grammar/regex.h"

namespace numoe::grammar {

using nlohmann::ordered_json;

absl::StatusOr<RuleId> TranslateJsonSchema(std::string_view text, const GrammarLimits& limits,
                                           Expressions& expressions) {
  ASSIGN_OR_RETURN(const ordered_json schema, ParseBoundedJson(text));
  return SchemaCompiler(schema, limits, expressions).Run();
}

absl::StatusOr<RuleId> SchemaCompiler::Run() {
  const SchemaAt top = reader_.root();
  const RuleId root = e_.AddRule(top.pointer, true);
  rules_.emplace(top.pointer + "\n", root);
  SchemaFacts facts;
  AbsorbAll({top}, facts);
  pending_.emplace_back(root, std::move(facts));
  while (!pending_.empty()) {
    const auto [rule, of_rule] = std::move(pending_.back());
    pending_.pop_back();
    e_.SetBody(rule, FromFacts(of_rule));
    if (!status_.ok()) return status_;
  }
  return root;
}

ExprId SchemaCompiler::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return e_.Never();
}

void SchemaCompiler::AbsorbAll(const Schemas& schemas, SchemaFacts& facts) {
  for (const SchemaAt& schema : schemas)
    if (status_.ok()) status_ = reader_.Absorb(schema, facts);
}

// A value for which all of `schemas` hold.
ExprId SchemaCompiler::Schema(Schemas schemas) {
  if (!status_.ok()) return e_.Never();
  if (schemas.empty()) return json_.Value();
  bool is_rule = false;
  std::string key;
  for (SchemaAt& schema : schemas) {
    absl::StatusOr<SchemaAt> target = reader_.Dereference(schema);
    if (!target.ok()) return Fail(target.status());
    is_rule |= target->schema != schema.schema;
    schema = *std::move(target);
    key += schema.pointer + "\n";
  }
  if (const auto known = rules_.find(key); known != rules_.end()) return e_.Call(known->second);
  SchemaFacts facts;
  AbsorbAll(schemas, facts);
  if (!is_rule && !facts.used_ref) return FromFacts(facts);
  const RuleId rule = e_.AddRule(schemas[0].pointer, true);
  rules_.emplace(std::move(key), rule);
  pending_.emplace_back(rule, std::move(facts));
  return e_.Call(rule);
}

ExprId SchemaCompiler::FromFacts(const SchemaFacts& facts) {
  if (!status_.ok() || facts.never) return e_.Never();
  if (++branches_ > limits_.expressions / 10 || e_.size() > limits_.expressions) {
    return Fail(absl::ResourceExhaustedError(
        fmt::format("{}: the schema has too many parts; anyOf beside other keywords multiplies them",
                    Printable(facts.pointer))));
  }
  if (facts.choices.size() > limits_.nesting) {
    return Fail(absl::ResourceExhaustedError(
        fmt::format("{}: more than {} anyOf and oneOf at once", Printable(facts.pointer), limits_.nesting)));
  }
  if (!facts.choices.empty()) return Alternatives(facts);
  if (facts.values.has_value()) return Values(facts);
  const uint8_t types = facts.effective_types();
  const bool anything_of_all = types == kAllTypes && facts.implied_types == 0 && facts.formats.empty();
  if (anything_of_all) return json_.Value();
  std::vector<ExprId> parts;
  if (types & kObjectType) parts.push_back(Object(facts));
  if (types & kArrayType) parts.push_back(Array(facts));
  if (types & kStringType) parts.push_back(String(facts));
  if (types & kIntegerType) parts.push_back(Number(facts, (types & kFractionType) != 0));
  if (types & kBooleanType) parts.insert(parts.end(), {e_.Literal("true"), e_.Literal("false")});
  if (types & kNullType) parts.push_back(e_.Literal("null"));
  return e_.Choice(parts);
}

// anyOf and oneOf: each alternative of the first list together with everything else.
ExprId SchemaCompiler::Alternatives(const SchemaFacts& facts) {
  NUMOE_DCHECK(!facts.choices.empty());
  std::vector<ExprId> parts;
  const bool alone = facts.only_choices() && facts.choices.size() == 1 && facts.formats.empty();
  SchemaFacts rest = facts;
  rest.choices.erase(rest.choices.begin());
  for (const SchemaAt& alternative : facts.choices.front()) {
    if (alone) {
      parts.push_back(Schema({alternative}));
      continue;
    }
    SchemaFacts both = rest;
    AbsorbAll({alternative}, both);
    parts.push_back(FromFacts(both));
  }
  return e_.Choice(parts);
}

ExprId SchemaCompiler::Values(const SchemaFacts& facts) {
  NUMOE_DCHECK(facts.values.has_value());
  std::vector<ExprId> parts;
  for (const ordered_json& value : *facts.values)
    if (ValueHolds(value, facts)) parts.push_back(json_.Exactly(value));
  return e_.Choice(parts);
}

// Whether a value of an enumeration satisfies the keywords beside it.
bool SchemaCompiler::ValueHolds(const ordered_json& value, const SchemaFacts& facts) {
  const auto has_type = [&facts](uint8_t type) { return (facts.types & type) != 0; };
  if (value.is_null()) return has_type(kNullType);
  if (value.is_boolean()) return has_type(kBooleanType);
  if (value.is_string()) {
    const MachinePtr machine = has_type(kStringType) ? StringMachine(facts) : nullptr;
    return has_type(kStringType) &&
           (machine == nullptr || Matches(*machine, JsonCharacters(value.get<std::string>())));
  }
  if (value.is_number()) {
    const std::optional<Decimal> number = Decimal::Parse(value.dump());
    const bool whole = number.has_value() && number->fraction.empty();
    if (!has_type(whole ? kIntegerType : kFractionType)) return false;
    if (!facts.bounds.any()) return true;
    const absl::StatusOr<ExprId> within = BoundedNumber(e_, facts.bounds, true, limits_);
    if (!within.ok()) return Fail(within.status()), false;
    const absl::StatusOr<MachinePtr> machine = CompileMachine(e_, *within, limits_);
    if (!machine.ok()) return Fail(machine.status()), false;
    return Matches(**machine, value.dump());
  }
  const bool is_array = value.is_array();
  if (!has_type(is_array ? kArrayType : kObjectType)) return false;
  const bool constrained =
      is_array ? !facts.arrays.empty() || facts.items_min > 0 || facts.items_max != kNoMaximum
               : !facts.objects.empty() || !facts.required.empty() || facts.properties_min > 0 ||
                     facts.properties_max != kNoMaximum || !facts.property_names.empty();
  if (constrained) {
    Fail(absl::UnimplementedError(fmt::format(
        "{}: an enumeration of arrays or objects with keywords about them beside it is not supported",
        Printable(facts.pointer))));
  }
  return !constrained;
}

ExprId SchemaCompiler::Number(const SchemaFacts& facts, bool fractions) {
  if (!facts.bounds.any()) return fractions ? json_.Number() : json_.Integer();
  const absl::StatusOr<ExprId> number = BoundedNumber(e_, facts.bounds, fractions, limits_);
  if (!number.ok()) return Fail(Annotate(number.status(), facts.pointer));
  return *number;
}

void SchemaCompiler::Narrow(MachinePtr& machine, absl::StatusOr<MachinePtr> by, Combination how,
                            const std::string& place) {
  if (by.ok() && machine != nullptr) by = Combine(*machine, **by, how, limits_);
  if (!by.ok()) {
    Fail(Annotate(by.status(), place));
    return;
  }
  machine = *std::move(by);
}

SchemaCompiler::MachinePtr SchemaCompiler::PatternMachine(const std::string& pattern,
                                                          const std::string& pointer) {
  MachinePtr& known = pattern_machines_[pattern];
  if (known == nullptr) {
    absl::StatusOr<MachinePtr> made = CompileRegex(pattern, RegexMatch::kSearch, EncodeForJson, limits_);
    if (!made.ok()) Fail(Annotate(made.status(), pointer));
    known = made.ok() ? *std::move(made) : std::make_shared<const Dfa>();
  }
  return known;
}

SchemaCompiler::MachinePtr SchemaCompiler::StringMachine(const SchemaFacts& facts) {
  MachinePtr machine;
  for (const SchemaFacts::Text& pattern : facts.patterns)
    Narrow(machine, PatternMachine(pattern.text, pattern.pointer), Combination::kBoth, pattern.pointer);
  for (const SchemaFacts::Text& format : facts.formats) {
    const std::optional<std::string> regex = FormatRegex(format.text);
    if (!regex.has_value()) continue;
    Narrow(machine, CompileRegex(*regex, RegexMatch::kWhole, EncodeForJson, limits_), Combination::kBoth,
           format.pointer);
  }
  if (facts.length_min > 0 || facts.length_max != kNoMaximum) {
    const ExprId any = EncodeForJson(e_, CodepointSet::All());
    const ExprId within =
        e_.Repeat(any, Count(facts.length_min, facts.pointer),
                  facts.length_max == kNoMaximum ? kUnbounded : Count(facts.length_max, facts.pointer));
    Narrow(machine, CompileMachine(e_, within, limits_), Combination::kBoth, facts.pointer);
  }
  return status_.ok() ? machine : std::make_shared<const Dfa>();
}

int SchemaCompiler::Count(int64_t value, const std::string& place) {
  constexpr int64_t kCountMax = 1'000'000;
  NUMOE_DCHECK_GE(value, 0);
  if (value > kCountMax) {
    Fail(absl::ResourceExhaustedError(
        fmt::format("{}: a length or count of {} is beyond {}", Printable(place), value, kCountMax)));
  }
  return static_cast<int>(std::min(value, kCountMax));
}

ExprId SchemaCompiler::String(const SchemaFacts& facts) {
  if (facts.length_min > facts.length_max) return e_.Never();
  const bool shaped = !facts.patterns.empty() ||
                      std::any_of(facts.formats.begin(), facts.formats.end(),
                                  [](const SchemaFacts::Text& f) { return FormatRegex(f.text).has_value(); });
  const int min = Count(facts.length_min, facts.pointer);
  const int max = facts.length_max == kNoMaximum ? kUnbounded : Count(facts.length_max, facts.pointer);
  if (!shaped) return json_.String(min, max);
  std::string name = fmt::format("string {} {}", min, max);
  for (const SchemaFacts::Text& pattern : facts.patterns) name += "\npattern " + pattern.text;
  for (const SchemaFacts::Text& format : facts.formats) name += "\nformat " + format.text;
  const MachinePtr machine = StringMachine(facts);
  return status_.ok() ? json_.String(machine, name) : e_.Never();
}

ExprId SchemaCompiler::Array(const SchemaFacts& facts) {
  int64_t max = facts.items_max;
  size_t prefix = 0;
  for (const SchemaFacts::ArrayPart& part : facts.arrays) prefix = std::max(prefix, part.prefix.size());
  const auto item_at = [&](size_t index) {
    Schemas schemas;
    for (const SchemaFacts::ArrayPart& part : facts.arrays) {
      if (index < part.prefix.size()) {
        schemas.push_back(part.prefix[index]);
      } else if (part.rest.has_value()) {
        schemas.push_back(*part.rest);
      }
    }
    return Schema(std::move(schemas));
  };
  std::vector<ExprId> items;
  for (size_t i = 0; i <= prefix && static_cast<int64_t>(i) < max; ++i) {
    items.push_back(item_at(i));
    if (e_.IsNever(items.back())) max = static_cast<int64_t>(i);
  }
  if (facts.items_min > max || !status_.ok()) return e_.Never();
  if (facts.unique_items.has_value() && max > 1) {
    return Fail(absl::UnimplementedError(fmt::format(
        "{}: \"uniqueItems\" is not supported in structured output", Printable(*facts.unique_items))));
  }
  if (max == 0) return e_.Literal("[]");
  NUMOE_DCHECK(!items.empty());
  if (prefix == 0) return UniformArray(items[0], facts.items_min, max);
  // Node i: i items were written; the last node: the end.
  const int end = static_cast<int>(prefix) + 1;
  std::vector<GraphEdge> edges;
  for (int i = 0; i <= static_cast<int>(prefix) && i <= max; ++i) {
    if (i >= facts.items_min) edges.push_back({i, end, e_.Empty()});
    if (i >= max) break;
    const ExprId item = items[static_cast<size_t>(i)];
    if (i < static_cast<int>(prefix)) {
      edges.push_back({i, i + 1, i == 0 ? item : e_.Sequence({json_.Comma(), item})});
      continue;
    }
    const int64_t more_min = std::max<int64_t>(1, facts.items_min - i);
    const int64_t more_max = max == kNoMaximum ? kNoMaximum : max - i;
    const ExprId more = e_.Sequence({json_.Comma(), CountedItem(item, more_min, more_max)});
    edges.push_back({i, end,
                     e_.Repeat(more, Count(more_min, facts.pointer),
                               more_max == kNoMaximum ? kUnbounded : Count(more_max, facts.pointer))});
  }
  return e_.Sequence({e_.Literal("["), e_.Graph(std::move(edges), end + 1, end), e_.Literal("]")});
}

// Counted repetitions copy what they repeat: a call is a small copy.
ExprId SchemaCompiler::CountedItem(ExprId item, int64_t min, int64_t max) {
  NUMOE_DCHECK(0 <= min && min <= max);
  if (min <= 1 && (max == kNoMaximum || max == 1)) return item;
  const RuleId rule = e_.AddRule("item", true);
  e_.SetBody(rule, item);
  return e_.Call(rule);
}

ExprId SchemaCompiler::UniformArray(ExprId item, int64_t min, int64_t max) {
  NUMOE_DCHECK(0 <= min && min <= max && max > 0);
  item = CountedItem(item, min, max);
  const ExprId open = e_.Literal("["), close = e_.Literal("]");
  if (min <= 1 && max == kNoMaximum) {  // a loop has one copy of the item
    std::vector<GraphEdge> edges = {
        {0, 1, e_.Empty()}, {1, 2, item}, {2, 1, json_.Comma()}, {2, 3, e_.Empty()}};
    if (min == 0) edges.push_back({0, 3, e_.Empty()});
    return e_.Sequence({open, e_.Graph(std::move(edges), 4, 3), close});
  }
  const ExprId more =
      e_.Repeat(e_.Sequence({json_.Comma(), item}), Count(std::max<int64_t>(0, min - 1), "minItems"),
                max == kNoMaximum ? kUnbounded : Count(max - 1, "maxItems"));
  const ExprId body = e_.Sequence({item, more});
  return e_.Sequence({open, min == 0 ? e_.Optional(body) : body, close});
}

}  // namespace numoe::grammar
