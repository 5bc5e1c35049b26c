#include "coordinator/text/grammar/json_syntax.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kShortEscapes = "\b\t\n\f\r", kShortNames = "btnfr";
static_assert(kShortEscapes.size() == kShortNames.size());

const CodepointSet& Escaped() {
  static const CodepointSet set = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

// A model that degenerates can repeat digits without end. No meaningful number has more digits than this.
constexpr int kNumberDigitsMax = 40;
constexpr int kScaledDigitsMax = 9;  // before an exponent of up to 299
static_assert(kScaledDigitsMax + 299 <= 308, "such numbers are finite doubles");

CodepointSet HexDigits(std::string_view digits) {
  std::vector<CodepointRange> ranges;
  for (const char d : digits) {
    ranges.push_back({static_cast<uint32_t>(d), static_cast<uint32_t>(d)});
    if (d >= 'a') ranges.push_back({static_cast<uint32_t>(d - 32), static_cast<uint32_t>(d - 32)});
  }
  return CodepointSet(std::move(ranges));
}

}  // namespace

RuleId JsonSyntax::SharedRule(const std::string& name) {
  const auto [place, added] = rules_.try_emplace(name, -1);
  if (added) place->second = expressions_.AddRule(name, true);
  return place->second;
}

ExprId JsonSyntax::Separator(std::string_view sign) {
  return expressions_.Sequence(
      {expressions_.Literal(sign), expressions_.Optional(expressions_.Literal(" "))});
}

ExprId JsonSyntax::Character() {
  Expressions& e = expressions_;
  const ExprId hex = e.Chars(HexDigits("0123456789abcdef"));
  const ExprId not_surrogate =
      e.Choice({e.Sequence({e.Chars(HexDigits("0123456789abcef")), e.Repeat(hex, 3, 3)}),
                e.Sequence({e.Chars(HexDigits("d")), e.Chars(HexDigits("01234567")), e.Repeat(hex, 2, 2)})});
  const ExprId pair =
      e.Sequence({e.Chars(HexDigits("d")), e.Chars(HexDigits("89ab")), e.Repeat(hex, 2, 2), e.Literal("\\u"),
                  e.Chars(HexDigits("d")), e.Chars(HexDigits("cdef")), e.Repeat(hex, 2, 2)});
  const ExprId simple = e.Chars(
      {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const ExprId escape = e.Sequence(
      {e.Literal("\\"), e.Choice({simple, e.Sequence({e.Literal("u"), e.Choice({not_surrogate, pair})})})});
  return e.Choice({e.Chars(Escaped().Complement()), escape});
}

ExprId JsonSyntax::String() { return String(0, kUnbounded); }

ExprId JsonSyntax::String(int min, int max) {
  const std::string name = min == 0 && max == kUnbounded ? "string" : fmt::format("string {} {}", min, max);
  const bool known = rules_.count(name) != 0;
  const RuleId rule = SharedRule(name);
  if (!known) {
    const ExprId quote = expressions_.Literal("\"");
    const ExprId body =
        expressions_.Sequence({quote, expressions_.Repeat(Character(), 0, kUnbounded), quote});
    expressions_.SetString(rule, body, min, max);
  }
  return expressions_.Call(rule);
}

ExprId JsonSyntax::String(std::shared_ptr<const Dfa> machine, const std::string& name) {
  NUMOE_CHECK(machine != nullptr && !name.empty());
  if (machine->empty()) return expressions_.Never();
  const bool known = rules_.count(name) != 0;
  const RuleId rule = SharedRule(name);
  if (!known) {
    const ExprId quote = expressions_.Literal("\"");
    expressions_.SetBody(rule,
                         expressions_.Sequence({quote, expressions_.Machine(std::move(machine)), quote}));
  }
  return expressions_.Call(rule);
}

ExprId JsonSyntax::Integer() {
  const bool known = rules_.count("integer") != 0;
  const RuleId rule = SharedRule("integer");
  if (!known) {
    Expressions& e = expressions_;
    e.SetBody(rule, e.Sequence({e.Optional(e.Literal("-")), Whole(kNumberDigitsMax)}));
  }
  return expressions_.Call(rule);
}

// A whole number of at most `digits_max` digits without leading zeros.
ExprId JsonSyntax::Whole(int digits_max) {
  NUMOE_DCHECK_GE(digits_max, 1);
  Expressions& e = expressions_;
  const ExprId more = e.Repeat(e.Chars({{'0', '9'}}), 0, digits_max - 1);
  return e.Choice({e.Literal("0"), e.Sequence({e.Chars({{'1', '9'}}), more})});
}

// The exponent is limited because most readers turn numbers beyond 10^308 into infinity.
ExprId JsonSyntax::Number() {
  const bool known = rules_.count("number") != 0;
  const RuleId rule = SharedRule("number");
  if (!known) {
    Expressions& e = expressions_;
    const ExprId digit = e.Chars({{'0', '9'}});
    const ExprId fraction = e.Sequence({e.Literal("."), e.Repeat(digit, 1, kNumberDigitsMax)});
    const ExprId power =
        e.Choice({e.Repeat(digit, 1, 2), e.Sequence({e.Chars({{'0', '2'}}), e.Repeat(digit, 2, 2)})});
    const ExprId exponent =
        e.Sequence({e.Chars({{'E', 'E'}, {'e', 'e'}}), e.Optional(e.Chars({{'+', '+'}, {'-', '-'}})), power});
    const ExprId plain = e.Sequence({Whole(kNumberDigitsMax), e.Optional(fraction)});
    const ExprId scaled = e.Sequence({Whole(kScaledDigitsMax), e.Optional(fraction), exponent});
    e.SetBody(rule, e.Sequence({e.Optional(e.Literal("-")), e.Choice({plain, scaled})}));
  }
  return expressions_.Call(rule);
}

ExprId JsonSyntax::Array() {
  const bool known = rules_.count("array") != 0;
  const RuleId rule = SharedRule("array");
  if (!known) {
    Expressions& e = expressions_;
    const ExprId more = e.Repeat(e.Sequence({Comma(), Value()}), 0, kUnbounded);
    e.SetBody(rule, e.Sequence({e.Literal("["), e.Optional(e.Sequence({Value(), more})), e.Literal("]")}));
  }
  return expressions_.Call(rule);
}

ExprId JsonSyntax::Object() {
  const bool known = rules_.count("object") != 0;
  const RuleId rule = SharedRule("object");
  if (!known) {
    Expressions& e = expressions_;
    const ExprId member = e.Sequence({String(), Colon(), Value()});
    const ExprId more = e.Repeat(e.Sequence({Comma(), member}), 0, kUnbounded);
    e.SetBody(rule, e.Sequence({e.Literal("{"), e.Optional(e.Sequence({member, more})), e.Literal("}")}));
  }
  return expressions_.Call(rule);
}

ExprId JsonSyntax::Value() {
  const bool known = rules_.count("value") != 0;
  const RuleId rule = SharedRule("value");
  if (!known) {
    Expressions& e = expressions_;
    e.SetBody(rule, e.Choice({String(), Number(), Object(), Array(), e.Literal("true"), e.Literal("false"),
                              e.Literal("null")}));
  }
  return expressions_.Call(rule);
}

ExprId JsonSyntax::Exactly(const ordered_json& value) {
  Expressions& e = expressions_;
  std::vector<ExprId> parts;
  if (value.is_string()) return e.Literal("\"" + JsonCharacters(value.get<std::string>()) + "\"");
  if (value.is_array()) {
    for (const auto& item : value) {
      parts.push_back(parts.empty() ? e.Literal("[") : Comma());
      parts.push_back(Exactly(item));
    }
    parts.push_back(e.Literal(parts.empty() ? "[]" : "]"));
    return e.Sequence(parts);
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      parts.push_back(parts.empty() ? e.Literal("{") : Comma());
      parts.insert(parts.end(), {e.Literal("\"" + JsonCharacters(key) + "\""), Colon(), Exactly(item)});
    }
    parts.push_back(e.Literal(parts.empty() ? "{}" : "}"));
    return e.Sequence(parts);
  }
  return e.Literal(value.dump());
}

ExprId EncodePlain(Expressions& expressions, const CodepointSet& set) { return expressions.Chars(set); }

ExprId EncodeForJson(Expressions& expressions, const CodepointSet& set) {
  std::vector<ExprId> parts = {expressions.Chars(set.Minus(Escaped()))};
  const CodepointSet escaped = set.And(Escaped());
  for (const CodepointRange& range : escaped.ranges())
    for (uint32_t c = range.low; c <= range.high; ++c)
      parts.push_back(expressions.Literal(JsonCharacters(EncodeUtf8(c))));
  return expressions.Choice(parts);
}

std::string JsonCharacters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (const size_t place = kShortEscapes.find(c); place != std::string_view::npos) {
      out += {'\\', kShortNames[place]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace numoe::text::grammar
