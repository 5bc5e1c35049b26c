// EBNF in the dialect that GBNF and XGrammar share; CONTRACT.md describes it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/text/grammar/front_ends.h"
#include "coordinator/text/grammar/repeat_count.h"
#include "coordinator/text/tokenizer/utf8.h"

namespace numoe::text::grammar {
namespace {

class EbnfParser {
 public:
  EbnfParser(std::string_view text, const GrammarLimits& limits, Expressions& expressions)
      : text_(text), limits_(limits), e_(expressions) {}

  absl::StatusOr<RuleId> Parse() {
    SkipSpace();
    while (!Done()) ParseRule();
    if (!error_.ok()) return error_;
    for (const auto& [name, use] : first_use_) {
      if (e_.rules()[static_cast<size_t>(rules_[name])].body >= 0) continue;
      at_ = use;
      Fail(fmt::format("rule {} is not defined", name));
      return error_;
    }
    NUMOE_DCHECK_EQ(depth_, 0u);
    const auto root = rules_.find("root");
    if (root == rules_.end() || e_.rules()[static_cast<size_t>(root->second)].body < 0)
      return absl::InvalidArgumentError("the grammar has no rule named root");
    return root->second;
  }

 private:
  bool Done() const { return !error_.ok() || at_ >= text_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool Take(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    NUMOE_DCHECK_LE(at_, text_.size());
    return true;
  }
  ExprId Fail(const std::string& problem, bool unsupported = false) {
    if (!error_.ok()) return e_.Never();
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = at_ - (before.rfind('\n') + 1);  // npos + 1 is 0
    const std::string message = fmt::format("line {}, column {}: {}", line, column + 1, problem);
    error_ = unsupported ? absl::UnimplementedError(message + " is not supported")
                         : absl::InvalidArgumentError(message);
    return e_.Never();
  }
  std::string Found() const {
    return Done() ? "the end"
                  : "'" + Printable(text_.substr(at_, std::min<size_t>(10, text_.size() - at_))) + "'";
  }

  void SkipSpace() {
    while (at_ < text_.size()) {
      if (Peek() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (Peek() == ' ' || Peek() == '\t' || Peek() == '\r' || Peek() == '\n') {
        ++at_;
      } else {
        return;
      }
    }
  }

  static bool IsNameByte(char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  }
  std::string TakeName() {
    const size_t begin = at_;
    // A name does not begin with '.', which means any character.
    while (IsNameByte(Peek()) && (at_ > begin || Peek() != '.')) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Returns whether a rule begins here.
  bool AtRule() {
    const size_t begin = at_;
    const bool named = !TakeName().empty();
    SkipSpace();
    const bool found = named && text_.substr(at_, 3) == "::=";
    at_ = begin;
    return found;
  }

  RuleId RuleNamed(const std::string& name) {
    const auto [place, added] = rules_.try_emplace(name, -1);
    if (added) place->second = e_.AddRule(name, false);
    return place->second;
  }

  void ParseRule() {
    if (!AtRule()) {
      Fail(fmt::format("found {}, expected a rule: name ::= expression", Found()));
      return;
    }
    const size_t begin = at_;
    const std::string name = TakeName();
    SkipSpace();
    Take("::=");
    const RuleId rule = RuleNamed(name);
    if (e_.rules()[static_cast<size_t>(rule)].body >= 0) {
      at_ = begin;
      Fail(fmt::format("rule {} is defined twice", name));
      return;
    }
    const std::vector<std::vector<ExprId>> alternatives = ParseAlternatives();
    if (!Done() && !AtRule())
      Fail(fmt::format("found {}, expected an element, '|' or the next rule", Found()));
    e_.SetBody(rule, WithoutLeftRecursion(rule, alternatives));
  }

  // Translates left recursion: a ::= a x | y means y followed by any number of x.
  ExprId WithoutLeftRecursion(RuleId rule, const std::vector<std::vector<ExprId>>& alternatives) {
    std::vector<ExprId> begins, continues;
    for (const std::vector<ExprId>& parts : alternatives) {
      const bool recurs =
          !parts.empty() && e_.at(parts[0]).kind == ExprKind::kRule && e_.at(parts[0]).rule == rule;
      if (recurs) {
        continues.push_back(e_.Sequence({parts.begin() + 1, parts.end()}));
      } else {
        begins.push_back(e_.Sequence(parts));
      }
    }
    if (continues.empty()) return e_.Choice(begins);
    return e_.Sequence({e_.Choice(begins), e_.Repeat(e_.Choice(continues), 0, kUnbounded)});
  }

  std::vector<std::vector<ExprId>> ParseAlternatives() {
    std::vector<std::vector<ExprId>> alternatives;
    if (++depth_ > limits_.nesting) Fail("groups nest too deep");
    do {
      std::vector<ExprId> parts;
      SkipSpace();
      while (!Done() && Peek() != '|' && Peek() != ')' && !AtRule()) {
        parts.push_back(ParseRepeated());
        SkipSpace();
      }
      alternatives.push_back(std::move(parts));
    } while (!Done() && Take("|"));
    --depth_;
    return alternatives;
  }

  ExprId ParseRepeated() {
    if (e_.size() > limits_.expressions) return Fail("the grammar has too many parts");
    ExprId element = ParseElement();
    while (error_.ok() && AtOperator()) {
      if (e_.size() > limits_.expressions) return Fail("the grammar has too many parts");
      element = ParseOperator(element);
    }
    return element;
  }

  ExprId ParseOperator(ExprId element) {
    if (Take("*")) return e_.Repeat(element, 0, kUnbounded);
    if (Take("+")) return e_.Repeat(element, 1, kUnbounded);
    if (Take("?")) return e_.Repeat(element, 0, 1);
    Take("{");
    const std::optional<int> min = TakeNumber();
    std::optional<int> max = min;
    SkipSpace();
    if (Take(",")) {
      SkipSpace();
      max = Peek() == '}' ? std::optional<int>(kUnbounded) : TakeNumber();
      SkipSpace();
    }
    if (!min.has_value() || !max.has_value() || (*max != kUnbounded && *max < *min) || !Take("}"))
      return Fail("expected a repetition: {3}, {2,} or {2,4}");
    return e_.Repeat(element, *min, *max);
  }

  // Returns whether an operator comes next. White space before it is skipped, because no rule begins with an
  // operator.
  bool AtOperator() {
    const size_t begin = at_;
    SkipSpace();
    if (!Done() && std::string_view("*+?{").find(Peek()) != std::string_view::npos) return true;
    at_ = begin;
    return false;
  }

  std::optional<int> TakeNumber() {
    SkipSpace();
    const absl::StatusOr<std::optional<int>> count = TakeRepeatCount(text_, at_);
    if (count.ok()) return *count;
    Fail(std::string(count.status().message()));
    return std::nullopt;
  }

  ExprId ParseElement() {
    if (Take("(")) return ParseGroup();
    if (Take("\"")) return ParseLiteral();
    if (Take("[")) return ParseClass();
    if (Take(".")) return e_.Chars(CodepointSet::All());
    if (Peek() == '<' || Peek() == '!') return Fail("a token element, as in <[100]>,", true);
    const size_t begin = at_;
    const std::string name = TakeName();
    if (name.empty()) return Fail(fmt::format("found {}, expected an element", Found()));
    if (Peek() == '(') {
      at_ = begin;
      return Fail(fmt::format("the macro {}", name), true);
    }
    first_use_.try_emplace(name, begin);
    return e_.Call(RuleNamed(name));
  }

  ExprId ParseGroup() {
    std::vector<ExprId> alternatives;
    for (const std::vector<ExprId>& parts : ParseAlternatives()) alternatives.push_back(e_.Sequence(parts));
    if (error_.ok() && !Take(")")) return Fail(fmt::format("found {}, expected ')'", Found()));
    return e_.Choice(alternatives);
  }

  ExprId ParseLiteral() {
    const size_t begin = at_ - 1;
    std::string bytes;
    while (!Done() && Peek() != '"') bytes += EncodeUtf8(TakeCharacter());
    if (Take("\"")) return e_.Literal(bytes);
    at_ = begin;
    return Fail("a literal without its closing '\"'");
  }

  ExprId ParseClass() {
    const size_t begin = at_ - 1;
    const bool negated = Take("^");
    std::vector<CodepointRange> ranges;
    while (!Done() && Peek() != ']') {
      const uint32_t low = TakeCharacter();
      if (Done()) break;  // an unknown escape, or the end of the text
      uint32_t high = low;
      if (Peek() == '-' && Peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        high = TakeCharacter();
        if (high < low) return Fail("a class with a range that ends before it begins");
      }
      ranges.push_back({low, high});
    }
    if (!Take("]")) {
      at_ = begin;
      return Fail("a class without its closing ']'");
    }
    const CodepointSet set(std::move(ranges));
    return e_.Chars(negated ? set.Complement() : set);
  }

  // Reads a character of a literal or class. REQUIRES: !Done().
  uint32_t TakeCharacter() {
    NUMOE_DCHECK(!Done());
    if (!Take("\\")) return DecodeUtf8(text_, at_);
    static constexpr std::string_view kNames = "nrtbfav0e", kValues("\n\r\t\b\f\a\v\0\x1b", 9);
    static_assert(kNames.size() == kValues.size());
    const char name = Peek();
    if (const size_t place = kNames.find(name); place != std::string_view::npos && !Done()) {
      ++at_;
      return static_cast<uint32_t>(kValues[place]);
    }
    const int digits = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
    if (digits > 0) {
      ++at_;
      return TakeHex(digits);
    }
    if (Done() || isalnum(static_cast<unsigned char>(name)) != 0 ||
        static_cast<unsigned char>(name) >= 0x80) {
      Fail("an unknown escape; write character classes such as \\d as ranges");
      return 0;
    }
    ++at_;
    return static_cast<uint32_t>(name);
  }

  uint32_t TakeHex(int digits) {
    NUMOE_DCHECK(digits == 2 || digits == 4 || digits == 8) << digits;
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = Peek();
      if (isxdigit(static_cast<unsigned char>(c)) == 0) {
        Fail(fmt::format("expected {} hexadecimal digits", digits));
        return 0;
      }
      value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (value > kCodepointMax || (value >= 0xD800 && value < 0xE000)) {
      Fail("an escape that does not name a character");
      return 0;
    }
    return value;
  }

  const std::string_view text_;
  const GrammarLimits& limits_;
  Expressions& e_;
  size_t at_ = 0;
  size_t depth_ = 0;
  absl::Status error_;
  std::map<std::string, RuleId> rules_;
  std::map<std::string, size_t> first_use_;  // by the rule's name: the offset of its first use
};

}  // namespace

absl::StatusOr<RuleId> TranslateEbnf(std::string_view text, const GrammarLimits& limits,
                                     Expressions& expressions) {
  if (ReplaceInvalidUtf8(text) != text) return absl::InvalidArgumentError("the grammar is not valid UTF-8");
  return EbnfParser(text, limits, expressions).Parse();
}

}  // namespace numoe::text::grammar
