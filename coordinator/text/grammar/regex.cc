#include "coordinator/text/grammar/regex.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/repeat_count.h"
#include "coordinator/text/tokenizer/utf8.h"

namespace numoe::text::grammar {
namespace {

const CodepointSet kDigits = {{'0', '9'}};
const CodepointSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodepointSet kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                             {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodepointSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// Returns the characters whose general category begins with `name`, as in \p{L} or \p{Lu}.
std::optional<CodepointSet> GeneralCategory(const std::string& name) {
  static const std::map<std::string, CodepointSet>* const all = [] {
    std::map<std::string, std::vector<CodepointRange>> ranges;
    for (uint32_t c = 0; c <= kCodepointMax; ++c) {
      const std::string category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
      std::vector<CodepointRange>& list = ranges[category];
      if (!list.empty() && list.back().high + 1 == c) {
        list.back().high = c;
      } else {
        list.push_back({c, c});
      }
    }
    auto* sets = new std::map<std::string, CodepointSet>;
    for (const auto& [category, list] : ranges) {
      CodepointSet& major = (*sets)[category.substr(0, 1)];
      major = major.Or(CodepointSet(list));
      (*sets)[category] = CodepointSet(list);
    }
    NUMOE_CHECK_LE(sets->size(), 37u) << "Unicode has 30 categories in 7 groups";
    return sets;
  }();
  const auto found = all->find(name);
  if (found == all->end()) return std::nullopt;
  return found->second;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, EncodeChars encode, const GrammarLimits& limits)
      : pattern_(pattern), encode_(encode), limits_(limits) {}

  absl::StatusOr<ExprId> Parse() {
    const ExprId whole = ParseChoice();
    if (status_.ok() && at_ < pattern_.size()) Fail("a ')' without its '('");
    if (!status_.ok()) return status_;
    NUMOE_DCHECK_EQ(depth_, 0u);
    return whole;
  }
  Expressions& expressions() { return expressions_; }
  bool has_anchors() const { return has_anchors_; }

 private:
  bool Done() const { return !status_.ok() || at_ >= pattern_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool Take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    NUMOE_DCHECK_LE(at_, pattern_.size());
    return true;
  }
  ExprId Fail(const std::string& problem, bool unsupported = false) {
    if (status_.ok()) {
      const std::string message = fmt::format("at byte {} of the regular expression: {}", at_, problem);
      status_ = unsupported ? absl::UnimplementedError(message + " is not supported")
                            : absl::InvalidArgumentError(message);
    }
    return expressions_.Never();
  }
  ExprId Unsupported(const std::string& what) { return Fail(what, true); }
  ExprId One(const CodepointSet& set) {
    if (expressions_.size() > limits_.expressions) {
      status_ = absl::ResourceExhaustedError("the regular expression has too many parts");
    }
    return encode_(expressions_, set);
  }

  ExprId ParseChoice() {
    if (++depth_ > limits_.nesting) return Fail("groups nest too deep");
    std::vector<ExprId> parts = {ParseSequence()};
    while (!Done() && Take("|")) parts.push_back(ParseSequence());
    --depth_;
    return expressions_.Choice(parts);
  }

  ExprId ParseSequence() {
    std::vector<ExprId> parts;
    while (!Done() && Peek() != '|' && Peek() != ')') parts.push_back(ParseRepeated());
    return expressions_.Sequence(parts);
  }

  ExprId ParseRepeated() {
    const size_t begin = at_;
    const ExprId part = ParseAtom();
    int min = 0, max = 0;
    if (!TakeQuantifier(min, max)) return part;
    const ExprKind kind = expressions_.at(part).kind;
    if (kind == ExprKind::kBegin || kind == ExprKind::kEnd) {
      at_ = begin;
      return Fail("an anchor cannot be repeated");
    }
    Take("?");  // a lazy quantifier matches the same texts
    int ignored = 0;
    if (Peek() == '+') return Unsupported("a possessive quantifier");
    if (TakeQuantifier(ignored, ignored)) return Fail("a quantifier follows a quantifier");
    return expressions_.Repeat(part, min, max);
  }

  bool TakeQuantifier(int& min, int& max) {
    if (!status_.ok()) return false;
    max = kUnbounded;
    if (Take("*")) return min = 0, true;
    if (Take("+")) return min = 1, true;
    if (Take("?")) return min = 0, max = 1, true;
    if (Peek() != '{') return false;
    const size_t begin = at_++;
    const std::optional<int> low = TakeNumber();
    std::optional<int> high = low;
    if (low.has_value() && Take(",")) high = Peek() == '}' ? std::optional<int>(kUnbounded) : TakeNumber();
    if (!low.has_value() || !high.has_value() || !Take("}")) {
      at_ = begin;  // a brace without a count is an ordinary character
      return false;
    }
    if (*high != kUnbounded && *high < *low) Fail("a repetition whose maximum is below its minimum");
    min = *low;
    max = *high;
    return true;
  }

  std::optional<int> TakeNumber() {
    const absl::StatusOr<std::optional<int>> count = TakeRepeatCount(pattern_, at_);
    if (count.ok()) return *count;
    Fail(std::string(count.status().message()));
    return std::nullopt;
  }

  ExprId ParseAtom() {
    if (Take("(")) return ParseGroup();
    if (Take("[")) return One(ParseClass());
    if (Take("^")) return Anchor(ExprKind::kBegin);
    if (Take("$")) return Anchor(ExprKind::kEnd);
    if (Take(".")) return One(kLineEnds.Complement());
    if (Peek() == '*' || Peek() == '+' || Peek() == '?')
      return Fail("a quantifier without anything to repeat");
    if (Take("\\")) {
      if (Take("A")) return Anchor(ExprKind::kBegin);
      if (Take("Z") || Take("z")) return Anchor(ExprKind::kEnd);
      if (Peek() == 'b' || Peek() == 'B') return Unsupported("a word boundary");
      if (Peek() >= '1' && Peek() <= '9') return Unsupported("a back reference");
      if (Peek() == 'k') return Unsupported("a back reference");
      return One(ParseEscape());
    }
    const uint32_t c = DecodeUtf8(pattern_, at_);
    return One({{c, c}});
  }

  ExprId Anchor(ExprKind kind) {
    has_anchors_ = true;
    return expressions_.Anchor(kind);
  }

  ExprId ParseGroup() {
    if (Take("?")) {
      if (Peek() == '=' || Peek() == '!') return Unsupported("look-ahead");
      if (Peek() == '<' && (Peek(1) == '=' || Peek(1) == '!')) return Unsupported("look-behind");
      if (Take("P<") || Take("<")) {
        const size_t end = pattern_.find('>', at_);
        if (end == std::string_view::npos) return Fail("a group name without its '>'");
        at_ = end + 1;
      } else if (!Take(":")) {
        return Unsupported("this kind of group");
      }
    }
    const ExprId inner = ParseChoice();
    if (status_.ok() && !Take(")")) return Fail("a '(' without its ')'");
    return inner;
  }

  // After "[".
  CodepointSet ParseClass() {
    const bool negated = Take("^");
    if (Peek() == ']') {
      Fail("an empty class; escape the ']' if it is meant");
      return {};
    }
    std::vector<CodepointRange> ranges;
    while (!Done() && Peek() != ']') {
      CodepointSet low = ParseClassAtom();
      if (Peek() == '-' && Peek(1) != ']' && at_ + 1 < pattern_.size() && IsSingle(low)) {
        ++at_;
        const CodepointSet high = ParseClassAtom();
        if (!IsSingle(high)) {  // as in [a-\d], where the dash is an ordinary character
          ranges.push_back({'-', '-'});
          ranges.insert(ranges.end(), high.ranges().begin(), high.ranges().end());
        } else if (high.ranges()[0].low < low.ranges()[0].low) {
          Fail("a class whose range ends before it begins");
        } else {
          low = {{low.ranges()[0].low, high.ranges()[0].low}};
        }
      }
      ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
    }
    if (!Take("]")) Fail("a '[' without its ']'");
    const CodepointSet set(std::move(ranges));
    return negated ? set.Complement() : set;
  }

  static bool IsSingle(const CodepointSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].low == set.ranges()[0].high;
  }

  CodepointSet ParseClassAtom() {
    if (Take("\\")) {
      if (Take("b")) return {{'\b', '\b'}};
      return ParseEscape();
    }
    const uint32_t c = DecodeUtf8(pattern_, at_);
    return {{c, c}};
  }

  // After a backslash.
  CodepointSet ParseEscape() {
    if (at_ >= pattern_.size()) {
      Fail("a backslash at the end");
      return {};
    }
    const char c = pattern_[at_];
    if (const CodepointSet* shorthand = c == 'd' || c == 'D'   ? &kDigits
                                        : c == 'w' || c == 'W' ? &kWord
                                        : c == 's' || c == 'S' ? &kSpace
                                                               : nullptr) {
      ++at_;
      return c < 'a' ? shorthand->Complement() : *shorthand;
    }
    if (c == 'p' || c == 'P') return ParseCategory();
    static constexpr std::string_view kNames = "tnrvf0ae", kValues("\t\n\r\v\f\0\a\x1b", 8);
    static_assert(kNames.size() == kValues.size());
    if (const size_t place = kNames.find(c); place != std::string_view::npos) {
      ++at_;
      const auto value = static_cast<uint32_t>(kValues[place]);
      return {{value, value}};
    }
    if (c == 'x' || c == 'u' || c == 'U') return ParseHex();
    if (c == 'c' && isalpha(static_cast<unsigned char>(Peek(1)))) {
      at_ += 2;
      const uint32_t value = static_cast<uint32_t>(pattern_[at_ - 1]) % 32;
      return {{value, value}};
    }
    if (isalnum(static_cast<unsigned char>(c))) {
      Unsupported(fmt::format("the escape \\{}", c));
      return {};
    }
    const uint32_t value = DecodeUtf8(pattern_, at_);
    return {{value, value}};
  }

  CodepointSet ParseCategory() {
    NUMOE_DCHECK(pattern_[at_] == 'p' || pattern_[at_] == 'P');
    const bool negated = pattern_[at_++] == 'P';
    const size_t end = pattern_.find('}', at_);
    if (!Take("{") || end == std::string_view::npos) {
      Fail("expected a category in braces, as in \\p{L}");
      return {};
    }
    const std::string name(pattern_.substr(at_, end - at_));
    const std::optional<CodepointSet> set = GeneralCategory(name);
    if (!set.has_value()) {
      Unsupported(fmt::format("the Unicode property {}", name));
      return {};
    }
    at_ = end + 1;
    return negated ? set->Complement() : *set;
  }

  CodepointSet ParseHex() {
    const char kind = pattern_[at_++];
    std::optional<uint32_t> value;
    if (kind == 'u' && Take("{")) {
      value = TakeHex(1, 6);
      if (!Take("}")) value.reset();
    } else {
      const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
      value = TakeHex(digits, digits);
      if (kind == 'u' && value.has_value() && *value >= 0xD800 && *value < 0xDC00 && Take("\\u")) {
        const std::optional<uint32_t> low = TakeHex(4, 4);
        const bool pair = low.has_value() && *low >= 0xDC00 && *low < 0xE000;
        value = pair ? std::optional(0x10000 + ((*value - 0xD800) << 10) + (*low - 0xDC00)) : std::nullopt;
      }
    }
    if (!value.has_value() || *value > kCodepointMax || (*value >= 0xD800 && *value < 0xE000)) {
      Fail("an escape that does not name a character");
      return {};
    }
    return {{*value, *value}};
  }

  std::optional<uint32_t> TakeHex(int min, int max) {
    NUMOE_DCHECK(0 < min && min <= max && max <= 8);
    uint32_t value = 0;
    int digits = 0;
    for (; digits < max && isxdigit(static_cast<unsigned char>(Peek())); ++digits, ++at_)
      value = value * 16 + static_cast<uint32_t>(Peek() <= '9' ? Peek() - '0' : (Peek() | 0x20) - 'a' + 10);
    return digits >= min ? std::optional(value) : std::nullopt;
  }

  const std::string_view pattern_;
  const EncodeChars encode_;
  const GrammarLimits& limits_;
  Expressions expressions_;
  size_t at_ = 0;
  size_t depth_ = 0;
  bool has_anchors_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dfa>> CompileRegex(std::string_view pattern, RegexMatch match,
                                                        EncodeChars encode, const GrammarLimits& limits) {
  if (pattern.size() > limits.source_bytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "the regular expression has {} bytes, expected at most {}", pattern.size(), limits.source_bytes));
  }
  if (ReplaceInvalidUtf8(pattern) != pattern)
    return absl::InvalidArgumentError("the regular expression is not valid UTF-8");
  RegexParser parser(pattern, encode, limits);
  ASSIGN_OR_RETURN(ExprId expression, parser.Parse());
  Expressions& expressions = parser.expressions();
  if (match == RegexMatch::kWithin && parser.has_anchors())
    return absl::UnimplementedError(
        "an anchor (^ or $) is not supported in a pattern that is searched for in a text; remove it");
  if (match == RegexMatch::kSearch) {
    const ExprId any = expressions.Repeat(encode(expressions, CodepointSet::All()), 0, kUnbounded);
    expression = expressions.Sequence({any, expression, any});
  }
  return CompileMachine(expressions, expression, limits);
}

}  // namespace numoe::text::grammar
