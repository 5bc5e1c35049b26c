#include "coordinator/text/grammar/schema_strings.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/text/grammar/json_formats.h"
#include "coordinator/text/grammar/regex.h"

namespace numoe::text::grammar {

void StringCompiler::Narrow(StringMachine& machine, absl::StatusOr<StringMachine> by, Combination how,
                            const std::string& place) {
  if (by.ok() && machine != nullptr) by = Combine(*machine, **by, how, shared_.limits());
  if (!by.ok()) {
    shared_.Fail(Annotate(by.status(), place));
    return;
  }
  machine = *std::move(by);
}

StringMachine StringCompiler::OfPattern(const std::string& pattern, const std::string& pointer) {
  StringMachine& known = pattern_machines_[pattern];
  if (known == nullptr) {
    absl::StatusOr<StringMachine> made =
        CompileRegex(pattern, RegexMatch::kSearch, EncodeForJson, shared_.limits());
    if (!made.ok()) shared_.Fail(Annotate(made.status(), pointer));
    known = made.ok() ? *std::move(made) : std::make_shared<const Dfa>();
  }
  return known;
}

StringMachine StringCompiler::Machine(const SchemaFacts& facts) {
  StringMachine machine;
  for (const SchemaFacts::Text& pattern : facts.patterns)
    Narrow(machine, OfPattern(pattern.text, pattern.pointer), Combination::kBoth, pattern.pointer);
  for (const SchemaFacts::Text& format : facts.formats) {
    const std::optional<std::string> regex = FormatRegex(format.text);
    if (!regex.has_value()) continue;
    Narrow(machine, CompileRegex(*regex, RegexMatch::kWhole, EncodeForJson, shared_.limits()),
           Combination::kBoth, format.pointer);
  }
  if (facts.length_min > 0 || facts.length_max != kNoMaximum) {
    const ExprId any = EncodeForJson(e_, CodepointSet::All());
    const ExprId within = e_.Repeat(any, shared_.Least(facts.length_min, facts.pointer),
                                    SharedCompilation::Greatest(facts.length_max, kCountMax));
    Narrow(machine, CompileMachine(e_, within, shared_.limits()), Combination::kBoth, facts.pointer);
  }
  return shared_.ok() ? machine : std::make_shared<const Dfa>();
}

ExprId StringCompiler::Expression(const SchemaFacts& facts) {
  if (facts.length_min > facts.length_max) return e_.Never();
  const bool shaped = !facts.patterns.empty() ||
                      std::any_of(facts.formats.begin(), facts.formats.end(),
                                  [](const SchemaFacts::Text& f) { return FormatRegex(f.text).has_value(); });
  const int min = shared_.Least(facts.length_min, facts.pointer);
  const int max = SharedCompilation::Greatest(facts.length_max, kCharactersMax);
  if (!shaped) return json_.String(min, max);
  std::string name = fmt::format("string {} {}", min, max);
  for (const SchemaFacts::Text& pattern : facts.patterns) name += "\npattern " + pattern.text;
  for (const SchemaFacts::Text& format : facts.formats) name += "\nformat " + format.text;
  const StringMachine machine = Machine(facts);
  return shared_.ok() ? json_.String(machine, name) : e_.Never();
}

StringMachine StringCompiler::OfKeys(const SchemaFacts& facts) {
  if (facts.property_names.empty()) return nullptr;
  SchemaFacts names;
  shared_.Absorb(facts.property_names, names);
  if (!names.choices.empty()) {
    shared_.Fail(absl::UnimplementedError(
        fmt::format("{}: anyOf and oneOf are not supported in propertyNames", Printable(names.pointer))));
  }
  if (!shared_.ok() || names.never || (names.types & kStringType) == 0) return std::make_shared<const Dfa>();
  if (!names.values.has_value()) return Machine(names);
  std::vector<ExprId> literals;
  for (const nlohmann::ordered_json& value : *names.values)
    if (value.is_string() && Holds(value.get<std::string>(), names))
      literals.push_back(e_.Literal(JsonCharacters(value.get<std::string>())));
  StringMachine machine;
  Narrow(machine, CompileMachine(e_, e_.Choice(literals), shared_.limits()), Combination::kBoth,
         names.pointer);
  return machine;
}

bool StringCompiler::Holds(const std::string& text, const SchemaFacts& facts) {
  const StringMachine machine = Machine(facts);
  return machine == nullptr || Matches(*machine, JsonCharacters(text));
}

}  // namespace numoe::text::grammar
