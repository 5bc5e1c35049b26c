#include "coordinator/text/grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/text/grammar/front_ends.h"
#include "coordinator/text/grammar/schema_objects.h"

namespace numoe::text::grammar {

using nlohmann::ordered_json;

absl::StatusOr<RuleId> TranslateJsonSchema(std::string_view text, const GrammarLimits& limits,
                                           Expressions& expressions) {
  ASSIGN_OR_RETURN(const ordered_json schema, ParseBoundedJson(text));
  return SchemaCompiler(schema, limits, expressions).Run();
}

absl::StatusOr<RuleId> SchemaCompiler::Run() {
  const SchemaAt top = shared_.reader().root();
  const RuleId root = e_.AddRule(top.pointer, true);
  rules_.emplace(top.pointer + "\n", root);
  SchemaFacts facts;
  shared_.Absorb({top}, facts);
  pending_.emplace_back(root, std::move(facts));
  while (!pending_.empty()) {
    const auto [rule, of_rule] = std::move(pending_.back());
    pending_.pop_back();
    e_.SetBody(rule, FromFacts(of_rule));
    if (!shared_.ok()) return shared_.status();
  }
  return root;
}

// An expression for the values for which all of `schemas` hold.
ExprId SchemaCompiler::Schema(Schemas schemas) {
  if (!shared_.ok()) return e_.Never();
  if (schemas.empty()) return json_.Value();
  bool is_rule = false;
  std::string key;
  for (SchemaAt& schema : schemas) {
    absl::StatusOr<SchemaAt> target = shared_.reader().Dereference(schema);
    if (!target.ok()) return shared_.Fail(target.status());
    is_rule |= target->schema != schema.schema;
    schema = *std::move(target);
    key += schema.pointer + "\n";
  }
  if (const auto known = rules_.find(key); known != rules_.end()) return e_.Call(known->second);
  SchemaFacts facts;
  shared_.Absorb(schemas, facts);
  if (!is_rule && !facts.used_ref) return FromFacts(facts);
  const RuleId rule = e_.AddRule(schemas[0].pointer, true);
  rules_.emplace(std::move(key), rule);
  pending_.emplace_back(rule, std::move(facts));
  return e_.Call(rule);
}

ExprId SchemaCompiler::FromFacts(const SchemaFacts& facts) {
  if (!shared_.ok() || facts.never) return e_.Never();
  if (++branches_ > shared_.limits().expressions / 10 || e_.size() > shared_.limits().expressions) {
    return shared_.Fail(
        absl::ResourceExhaustedError(fmt::format("{}: the schema has too many parts; an anyOf beside other "
                                                 "keywords multiplies them, so use fewer of these",
                                                 Printable(facts.pointer))));
  }
  if (facts.choices.size() > shared_.limits().nesting) {
    return shared_.Fail(absl::ResourceExhaustedError(
        fmt::format("{}: more than {} anyOf and oneOf that must all hold; use fewer",
                    Printable(facts.pointer), shared_.limits().nesting)));
  }
  if (!facts.choices.empty()) return Alternatives(facts);
  if (facts.values.has_value()) return Values(facts);
  const uint8_t types = facts.effective_types();
  const bool anything_of_all = types == kAllTypes && facts.implied_types == 0 && facts.formats.empty();
  if (anything_of_all) return json_.Value();
  std::vector<ExprId> parts;
  if (types & kObjectType) parts.push_back(Object(facts));
  if (types & kArrayType) parts.push_back(Array(facts));
  if (types & kStringType) parts.push_back(strings_.Expression(facts));
  if (types & kIntegerType) parts.push_back(Number(facts, (types & kFractionType) != 0));
  if (types & kBooleanType) parts.insert(parts.end(), {e_.Literal("true"), e_.Literal("false")});
  if (types & kNullType) parts.push_back(e_.Literal("null"));
  return e_.Choice(parts);
}

// Translates anyOf and oneOf: combines each alternative of the first list with all other facts.
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
    shared_.Absorb({alternative}, both);
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

// Returns whether a value of an enumeration satisfies the keywords beside it.
bool SchemaCompiler::ValueHolds(const ordered_json& value, const SchemaFacts& facts) {
  const auto has_type = [&facts](uint8_t type) { return (facts.types & type) != 0; };
  if (value.is_null()) return has_type(kNullType);
  if (value.is_boolean()) return has_type(kBooleanType);
  if (value.is_string()) return has_type(kStringType) && strings_.Holds(value.get<std::string>(), facts);
  if (value.is_number()) {
    const std::optional<Decimal> number = Decimal::Parse(value.dump());
    const bool whole = number.has_value() && number->fraction.empty();
    if (!has_type(whole ? kIntegerType : kFractionType)) return false;
    if (!facts.bounds.any()) return true;
    const absl::StatusOr<ExprId> within = BoundedNumber(e_, facts.bounds, true, shared_.limits());
    if (!within.ok()) return shared_.Fail(within.status()), false;
    const absl::StatusOr<std::shared_ptr<const Dfa>> machine = CompileMachine(e_, *within, shared_.limits());
    if (!machine.ok()) return shared_.Fail(machine.status()), false;
    return Matches(**machine, value.dump());
  }
  const bool is_array = value.is_array();
  if (!has_type(is_array ? kArrayType : kObjectType)) return false;
  const bool constrained =
      is_array ? !facts.arrays.empty() || facts.items_min > 0 || facts.items_max != kNoMaximum
               : !facts.objects.empty() || !facts.required.empty() || facts.properties_min > 0 ||
                     facts.properties_max != kNoMaximum || !facts.property_names.empty();
  if (constrained) {
    shared_.Fail(absl::UnimplementedError(fmt::format(
        "{}: an enumeration of arrays or objects beside keywords about arrays or objects is not supported",
        Printable(facts.pointer))));
  }
  return !constrained;
}

ExprId SchemaCompiler::Object(const SchemaFacts& facts) {
  const auto schema = [this](Schemas schemas) { return Schema(std::move(schemas)); };
  return ObjectCompiler(facts, shared_, strings_, schema).Expression();
}

ExprId SchemaCompiler::Number(const SchemaFacts& facts, bool fractions) {
  if (!facts.bounds.any()) return fractions ? json_.Number() : json_.Integer();
  const absl::StatusOr<ExprId> number = BoundedNumber(e_, facts.bounds, fractions, shared_.limits());
  if (!number.ok()) return shared_.Fail(Annotate(number.status(), facts.pointer));
  return *number;
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
  if (facts.items_min > max || !shared_.ok()) return e_.Never();
  if (facts.unique_items.has_value() && max > 1) {
    return shared_.Fail(absl::UnimplementedError(fmt::format(
        "{}: \"uniqueItems\" is not supported in structured output", Printable(*facts.unique_items))));
  }
  if (max == 0) return e_.Literal("[]");
  NUMOE_DCHECK(!items.empty());
  if (prefix == 0) return UniformArray(items[0], facts.items_min, max);
  // At node i, i items have been written; the last node is the end.
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
    const ExprId more = e_.Sequence({json_.Comma(), shared_.CountedItem(item, more_min, more_max)});
    edges.push_back({i, end,
                     e_.Repeat(more, shared_.Least(more_min, facts.pointer),
                               SharedCompilation::Greatest(more_max, kCountMax))});
  }
  return e_.Sequence({e_.Literal("["), e_.Graph(std::move(edges), end + 1, end), e_.Literal("]")});
}

ExprId SchemaCompiler::UniformArray(ExprId item, int64_t min, int64_t max) {
  NUMOE_DCHECK(0 <= min && min <= max && max > 0);
  item = shared_.CountedItem(item, min, max);
  const ExprId open = e_.Literal("["), close = e_.Literal("]");
  if (min <= 1 && max == kNoMaximum) {  // a loop needs only one copy of the item
    std::vector<GraphEdge> edges = {
        {0, 1, e_.Empty()}, {1, 2, item}, {2, 1, json_.Comma()}, {2, 3, e_.Empty()}};
    if (min == 0) edges.push_back({0, 3, e_.Empty()});
    return e_.Sequence({open, e_.Graph(std::move(edges), 4, 3), close});
  }
  const ExprId more =
      e_.Repeat(e_.Sequence({json_.Comma(), item}), shared_.Least(std::max<int64_t>(0, min - 1), "minItems"),
                SharedCompilation::Greatest(max - 1, kCountMax));
  const ExprId body = e_.Sequence({item, more});
  return e_.Sequence({open, min == 0 ? e_.Optional(body) : body, close});
}

}  // namespace numoe::text::grammar
