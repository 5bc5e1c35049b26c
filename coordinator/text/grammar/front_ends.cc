#include "coordinator/text/grammar/front_ends.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/regex.h"

namespace numoe::text::grammar {
namespace {

RuleId RootRule(Expressions& expressions, ExprId body) {
  const RuleId root = expressions.AddRule("root", true);
  expressions.SetBody(root, body);
  return root;
}

absl::StatusOr<RuleId> TranslateRegex(std::string_view text, const GrammarLimits& limits,
                                      Expressions& expressions) {
  ASSIGN_OR_RETURN(auto machine, CompileRegex(text, RegexMatch::kWhole, EncodePlain, limits));
  return RootRule(expressions, expressions.Machine(std::move(machine)));
}

absl::StatusOr<RuleId> TranslateChoice(std::string_view text, Expressions& expressions) {
  ASSIGN_OR_RETURN(const nlohmann::ordered_json choices, ParseBoundedJson(text));
  if (!choices.is_array() || choices.empty())
    return absl::InvalidArgumentError(
        "the choices are not a list of one or more strings, as in [\"yes\", \"no\"]");
  std::vector<ExprId> parts;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string())
      return absl::InvalidArgumentError(fmt::format("choice {} is not a string", i));
    parts.push_back(expressions.Literal(choices[i].get<std::string>()));
  }
  return RootRule(expressions, expressions.Choice(parts));
}

absl::StatusOr<RuleId> TranslateText(const GrammarSource& source, const GrammarLimits& limits,
                                     Expressions& expressions) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonSchema:
      return TranslateJsonSchema(source.text, limits, expressions);
    case GrammarSource::Kind::kJsonObject:
      return RootRule(expressions, JsonSyntax(expressions).Object());
    case GrammarSource::Kind::kRegex:
      return TranslateRegex(source.text, limits, expressions);
    case GrammarSource::Kind::kChoice:
      return TranslateChoice(source.text, expressions);
    case GrammarSource::Kind::kStructuralTag:
      return TranslateStructuralTag(source.text, limits, expressions);
    case GrammarSource::Kind::kEbnf:
      break;
  }
  return TranslateEbnf(source.text, limits, expressions);
}

}  // namespace

absl::StatusOr<RuleId> Translate(const GrammarSource& source, const GrammarLimits& limits,
                                 Expressions& expressions) {
  ASSIGN_OR_RETURN(const RuleId inside, TranslateText(source, limits, expressions));
  if (source.before.empty() && source.after.empty()) return inside;
  std::vector<ExprId> before;
  for (const std::string& one : source.before) before.push_back(expressions.Literal(one));
  return RootRule(expressions,
                  expressions.Sequence({before.empty() ? expressions.Empty() : expressions.Choice(before),
                                        expressions.Call(inside), expressions.Literal(source.after)}));
}

}  // namespace numoe::text::grammar
