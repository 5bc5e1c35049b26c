#include "coordinator/text/grammar/schema_objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/json/json_reader.h"

namespace numoe::text::grammar {
namespace {

constexpr size_t kPatternsMax = 6;  // each combination of patterns is a separate set of keys
static_assert(kPatternsMax < 8 * sizeof(size_t), "a size_t has a bit for each pattern");

}  // namespace

// Returns whether undeclared keys are allowed: if additionalProperties says so, and by default if no key is
// declared. An object that declares keys and does not mention others has only these, because that is what a
// client that lists keys means, and what models handle best.
bool ObjectCompiler::AllowsExtra() const {
  if (facts_.closed) return false;
  return facts_.objects.empty() ||
         std::any_of(facts_.objects.begin(), facts_.objects.end(),
                     [](const SchemaFacts::ObjectPart& part) { return part.additional.has_value(); });
}

// Returns the schemas for the value of the member `name`.
Schemas ObjectCompiler::MemberSchemas(const std::string& name) {
  Schemas schemas;
  for (const SchemaFacts::ObjectPart& part : facts_.objects) {
    bool mentioned = false;
    for (const auto& [key, schema] : part.properties) {
      if (key != name) continue;
      schemas.push_back(schema);
      mentioned = true;
    }
    for (const auto& [pattern, schema] : part.patterns) {
      if (!Matches(*strings_.OfPattern(pattern, schema.pointer), JsonCharacters(name))) continue;
      schemas.push_back(schema);
      mentioned = true;
    }
    if (!mentioned && part.additional.has_value()) schemas.push_back(*part.additional);
  }
  return schemas;
}

ObjectCompiler::Members ObjectCompiler::CollectMembers() {
  std::vector<std::string> names;
  std::set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const SchemaFacts::ObjectPart& part : facts_.objects)
    for (const auto& [name, schema] : part.properties) add(name);
  for (const std::string& name : facts_.required) add(name);
  const std::set<std::string> required(facts_.required.begin(), facts_.required.end());
  const StringMachine keys = strings_.OfKeys(facts_);
  Members members;
  for (const std::string& name : names) {
    const bool allowed = keys == nullptr || Matches(*keys, JsonCharacters(name));
    const ExprId value = allowed ? schema_(MemberSchemas(name)) : e_.Never();
    members.declared.push_back({name, value, required.count(name) != 0});
  }
  members.extra = ExtraMembers(names);
  return members;
}

ExprId ObjectCompiler::ExtraMembers(const std::vector<std::string>& declared) {
  std::vector<StringMachine> patterns;
  for (const SchemaFacts::ObjectPart& part : facts_.objects)
    for (const auto& [pattern, schema] : part.patterns)
      patterns.push_back(strings_.OfPattern(pattern, schema.pointer));
  if (patterns.size() > kPatternsMax) {
    return shared_.Fail(absl::UnimplementedError(fmt::format(
        "{}: more than {} patternProperties are not supported", Printable(facts_.pointer), kPatternsMax)));
  }
  if (patterns.empty() && !AllowsExtra()) return e_.Never();
  if (patterns.empty() && declared.empty() && facts_.property_names.empty()) {
    return e_.Sequence({json_.String(), json_.Colon(), schema_(MemberSchemas(""))});
  }
  std::vector<ExprId> regions;
  for (size_t inside = 0; inside < size_t{1} << patterns.size() && shared_.ok(); ++inside)
    regions.push_back(ExtraRegion(declared, patterns, inside));
  return e_.Choice(regions);
}

// An expression for undeclared members whose keys match exactly the patterns in the bit set `inside`.
ExprId ObjectCompiler::ExtraRegion(const std::vector<std::string>& declared,
                                   const std::vector<StringMachine>& patterns, size_t inside) {
  if (inside == 0 && !AllowsExtra()) return e_.Never();
  Schemas schemas;
  size_t index = 0;
  std::string name = "key";
  for (const SchemaFacts::ObjectPart& part : facts_.objects) {
    bool mentioned = false;
    for (const auto& [pattern, schema] : part.patterns) {
      const bool matches = (inside >> index++ & 1) != 0;
      name += fmt::format("\n{} {}", matches ? "in" : "out", pattern);
      if (matches) schemas.push_back(schema);
      mentioned |= matches;
    }
    if (!mentioned && part.additional.has_value()) schemas.push_back(*part.additional);
  }
  NUMOE_CHECK_EQ(index, patterns.size()) << "`inside` has a bit for each pattern";
  StringMachine keys;
  const ExprId any = e_.Repeat(EncodeForJson(e_, CodepointSet::All()), 0, kUnbounded);
  strings_.Narrow(keys, CompileMachine(e_, any, shared_.limits()), Combination::kBoth, facts_.pointer);
  for (size_t p = 0; p < patterns.size() && shared_.ok(); ++p) {
    strings_.Narrow(keys, patterns[p], (inside >> p & 1) != 0 ? Combination::kBoth : Combination::kFirstOnly,
                    facts_.pointer);
  }
  std::vector<ExprId> literals;
  for (const std::string& key : declared) {
    literals.push_back(e_.Literal(JsonCharacters(key)));
    name += "\nnot " + key;
  }
  if (shared_.ok())
    strings_.Narrow(keys, CompileMachine(e_, e_.Choice(literals), shared_.limits()), Combination::kFirstOnly,
                    facts_.pointer);
  if (const StringMachine allowed = strings_.OfKeys(facts_); shared_.ok() && allowed != nullptr) {
    strings_.Narrow(keys, allowed, Combination::kBoth, facts_.pointer);
    name += "\nnames " + facts_.pointer;
  }
  if (!shared_.ok() || keys->empty()) return e_.Never();
  const ExprId value = schema_(std::move(schemas));
  return e_.Sequence({json_.String(keys, name), json_.Colon(), value});
}

ExprId ObjectCompiler::Expression() {
  Members members = CollectMembers();
  if (!shared_.ok()) return e_.Never();
  int64_t required = 0;
  for (const Member& member : members.declared) {
    if (member.required && e_.IsNever(member.value)) return e_.Never();
    required += member.required ? 1 : 0;
  }
  std::erase_if(members.declared, [this](const Member& member) { return e_.IsNever(member.value); });
  const auto declared = static_cast<int64_t>(members.declared.size());
  const bool extra = !e_.IsNever(members.extra);
  int64_t max = facts_.properties_max;
  if ((!extra && max >= declared) || max > kCountMax) max = kNoMaximum;
  // Undeclared keys may repeat, and a repeated key counts once. Therefore only one of them counts towards the
  // minimum.
  const int64_t min = facts_.properties_min <= required ? 0 : facts_.properties_min;
  if (extra && min > required + 1) {
    return shared_.Fail(
        absl::UnimplementedError(fmt::format("{}: with undeclared keys, minProperties of more than the "
                                             "number of required properties plus one is not supported",
                                             Printable(facts_.pointer))));
  }
  if (required > max || min > max || (!extra && min > declared)) return e_.Never();
  return ObjectGraph(members, min, max);
}

// Each pair (i, c) has two nodes: "before member i, with c members written", where c stops counting when it
// no longer matters, and the same "after the comma, if one is needed". Because the first member and later
// ones pass through the second node, the graph has each member once for each c.
ExprId ObjectCompiler::ObjectGraph(const Members& members, int64_t min, int64_t max) {
  NUMOE_DCHECK(0 <= min && min <= max);
  const int count = static_cast<int>(members.declared.size());
  const bool limited = max != kNoMaximum;
  const int cap = shared_.Least(limited ? max : std::max<int64_t>(1, min), "minProperties");
  if (static_cast<size_t>(count + 1) * static_cast<size_t>(cap + 1) > shared_.limits().nfa_states / 8)
    return shared_.Fail(
        absl::ResourceExhaustedError("minProperties or maxProperties is too large for an object with this "
                                     "number of properties; lower it or leave it out"));
  // If members are counted, the graph has a copy of each member for every count.
  const ExprId extra = shared_.CountedItem(members.extra, 0, cap);
  const auto before = [cap](int i, int c) { return 2 * (i * (cap + 1) + c); };
  const auto at = [cap](int i, int c) { return 2 * (i * (cap + 1) + c) + 1; };
  const int end = 2 * (count + 1) * (cap + 1);
  std::vector<GraphEdge> edges;
  for (int i = 0; i <= count; ++i) {
    const bool is_extra = i == count;
    for (int c = 0; c <= cap; ++c) {
      const int next = std::min(c + 1, cap);
      const bool full = limited && c == cap;
      if (!full && !(is_extra && e_.IsNever(members.extra)))
        edges.push_back({before(i, c), at(i, next), c == 0 ? e_.Empty() : json_.Comma()});
      if (is_extra) {
        if (c >= min) edges.push_back({before(i, c), end, e_.Empty()});
        if (c > 0) edges.push_back({at(i, c), before(i, c), extra});
        continue;
      }
      const Member& member = members.declared[static_cast<size_t>(i)];
      if (!member.required) edges.push_back({before(i, c), before(i + 1, c), e_.Empty()});
      if (c == 0) continue;
      const ExprId key = e_.Sequence({e_.Literal("\"" + JsonCharacters(member.name) + "\""), json_.Colon()});
      edges.push_back(
          {at(i, c), before(i + 1, c), e_.Sequence({key, shared_.CountedItem(member.value, 0, cap)})});
    }
  }
  return e_.Sequence({e_.Literal("{"), e_.Graph(std::move(edges), end + 1, end), e_.Literal("}")});
}

}  // namespace numoe::text::grammar
