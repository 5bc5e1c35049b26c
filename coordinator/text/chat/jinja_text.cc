#include "coordinator/text/chat/jinja_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/text/chat/special_casing.h"

namespace numoe::text::jinja {
namespace {

// Numbers from this one, above the last code point, are for bytes that are not part of a code point.
constexpr int32_t kByteBase = 0x110000;

// Digits that are not decimal: superscripts and digits in circles and brackets.
constexpr std::pair<int32_t, int32_t> kOtherDigits[] = {
    {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

utf8proc_category_t CategoryOf(int32_t point) { return utf8proc_category(point); }
bool IsCased(int32_t point) {
  return utf8proc_islower(point) != 0 || utf8proc_isupper(point) != 0 ||
         CategoryOf(point) == UTF8PROC_CATEGORY_LT;
}
bool IsOneOf(int32_t point, std::initializer_list<utf8proc_category_t> categories) {
  return std::find(categories.begin(), categories.end(), CategoryOf(point)) != categories.end();
}

std::string TitleOf(int32_t point) {
  const SpecialCase* special = FindSpecialCase(point);
  return special != nullptr ? std::string(special->title) : CodePointText(utf8proc_totitle(point));
}

// Returns whether the letter at `at` ends a word; there the lower-case sigma has another form.
bool EndsWord(const std::vector<int32_t>& points, size_t at) {
  const auto ignorable = [](int32_t p) {
    return IsOneOf(p, {UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_LM,
                       UTF8PROC_CATEGORY_SK}) ||
           p == '\'' || p == '.' || p == ':' || p == 0x2019;
  };
  size_t before = at;
  while (before > 0 && ignorable(points[before - 1])) --before;
  size_t after = at + 1;
  while (after < points.size() && ignorable(points[after])) ++after;
  return before > 0 && IsCased(points[before - 1]) && (after >= points.size() || !IsCased(points[after]));
}

std::vector<int32_t> CodePointsOf(std::string_view text) {
  std::vector<int32_t> points;
  ForEachCodePoint(text, [&](int32_t point, std::string_view) { points.push_back(point); });
  return points;
}

std::string LowerOf(const std::vector<int32_t>& points, size_t at) {
  if (points[at] == 0x130) return "i\u0307";  // the only letter whose lower case has two code points
  if (points[at] == 0x3A3 && EndsWord(points, at)) return "\u03c2";
  return CodePointText(utf8proc_tolower(points[at]));
}

bool AllOf(std::string_view text, absl::FunctionRef<bool(int32_t)> is) {
  bool all = !text.empty();
  ForEachCodePoint(text, [&](int32_t point, std::string_view) { all = all && is(point); });
  return all;
}

bool IsDecimal(int32_t point) { return CategoryOf(point) == UTF8PROC_CATEGORY_ND; }
bool IsDigit(int32_t point) {
  return IsDecimal(point) ||
         std::any_of(std::begin(kOtherDigits), std::end(kOtherDigits),
                     [&](const auto& range) { return point >= range.first && point <= range.second; });
}
bool IsNumeric(int32_t point) {
  return IsDigit(point) || IsOneOf(point, {UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO});
}
bool IsAlpha(int32_t point) {
  return IsOneOf(point, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                         UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
}

bool IsTitle(std::string_view text) {
  bool cased = false, before = false, title = true;
  ForEachCodePoint(text, [&](int32_t p, std::string_view) {
    const bool upper = utf8proc_isupper(p) != 0 || CategoryOf(p) == UTF8PROC_CATEGORY_LT;
    const bool lower = utf8proc_islower(p) != 0;
    title = title && !(upper && before) && !(lower && !before);
    before = upper || lower;
    cased = cased || before;
  });
  return title && cased;
}

bool IsIdentifier(std::string_view text) {
  bool first = true, valid = !text.empty();
  ForEachCodePoint(text, [&](int32_t p, std::string_view) {
    const bool start = p == '_' || IsAlpha(p) || CategoryOf(p) == UTF8PROC_CATEGORY_NL;
    const bool inside =
        IsDecimal(p) || IsOneOf(p, {UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_PC});
    valid = valid && (start || (!first && inside));
    first = false;
  });
  return valid;
}

}  // namespace

void ForEachCodePoint(std::string_view text, absl::FunctionRef<void(int32_t, std::string_view)> visit) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t point = 0;
    utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (length <= 0) {  // not UTF-8, so the byte is visited alone
      point = kByteBase + static_cast<unsigned char>(text[at]);
      length = 1;
    }
    visit(point, text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
}

std::string CodePointText(int32_t point) {
  if (point >= kByteBase && point < kByteBase + 0x100)
    return std::string(1, static_cast<char>(point - kByteBase));
  if (point < 0 || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return "\uFFFD";
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(point, buffer);
  NUMOE_DCHECK(length > 0 && length <= 4) << point;
  return std::string(reinterpret_cast<char*>(buffer), static_cast<size_t>(length));
}

std::string Lower(std::string_view text) {
  const std::vector<int32_t> points = CodePointsOf(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) out += LowerOf(points, i);
  return out;
}

std::string Upper(std::string_view text) {
  std::string out;
  ForEachCodePoint(text, [&](int32_t point, std::string_view) {
    const SpecialCase* special = FindSpecialCase(point);
    out += special != nullptr ? std::string(special->upper) : CodePointText(utf8proc_toupper(point));
  });
  return out;
}

std::string Title(std::string_view text) {
  const std::vector<int32_t> points = CodePointsOf(text);
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < points.size(); ++i) {
    out += inside ? LowerOf(points, i) : TitleOf(points[i]);
    inside = IsCased(points[i]);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  const std::vector<int32_t> points = CodePointsOf(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) out += i == 0 ? TitleOf(points[i]) : LowerOf(points, i);
  return out;
}

std::string SwapCase(std::string_view text) {
  const std::vector<int32_t> points = CodePointsOf(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string letter = CodePointText(points[i]);
    out += utf8proc_isupper(points[i]) != 0   ? LowerOf(points, i)
           : utf8proc_islower(points[i]) != 0 ? Upper(letter)
                                              : letter;
  }
  return out;
}

std::string CaseFold(std::string_view text) {
  std::string out;
  ForEachCodePoint(text, [&](int32_t point, std::string_view bytes) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        point, folded, static_cast<utf8proc_ssize_t>(std::size(folded)), UTF8PROC_CASEFOLD, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(folded))) {
      out += bytes;
      return;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) out += CodePointText(folded[i]);
  });
  return out;
}

bool IsLower(std::string_view text) {
  bool cased = false, lower = true;
  ForEachCodePoint(text, [&](int32_t p, std::string_view) {
    cased = cased || utf8proc_islower(p) != 0;
    lower = lower && utf8proc_isupper(p) == 0 && CategoryOf(p) != UTF8PROC_CATEGORY_LT;
  });
  return cased && lower;
}

bool IsUpper(std::string_view text) {
  bool cased = false, upper = true;
  ForEachCodePoint(text, [&](int32_t p, std::string_view) {
    cased = cased || utf8proc_isupper(p) != 0;
    upper = upper && utf8proc_islower(p) == 0 && CategoryOf(p) != UTF8PROC_CATEGORY_LT;
  });
  return cased && upper;
}

bool IsPrintable(int32_t point) {
  return point == ' ' || !IsOneOf(point, {UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF,
                                          UTF8PROC_CATEGORY_CS, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_ZS,
                                          UTF8PROC_CATEGORY_ZL, UTF8PROC_CATEGORY_ZP});
}

bool IsWord(int32_t point) { return point == '_' || IsAlpha(point) || IsNumeric(point); }

std::optional<bool> IsKindOfText(std::string_view text, std::string_view name) {
  if (name == "islower") return IsLower(text);
  if (name == "isupper") return IsUpper(text);
  if (name == "istitle") return IsTitle(text);
  if (name == "isidentifier") return IsIdentifier(text);
  if (name == "isdecimal") return AllOf(text, IsDecimal);
  if (name == "isdigit") return AllOf(text, IsDigit);
  if (name == "isnumeric") return AllOf(text, IsNumeric);
  if (name == "isalpha") return AllOf(text, IsAlpha);
  if (name == "isalnum") return AllOf(text, [](int32_t p) { return IsAlpha(p) || IsNumeric(p); });
  if (name == "isspace") return AllOf(text, [](int32_t p) { return SpaceLength(CodePointText(p)) > 0; });
  if (name == "isascii") return text.empty() || AllOf(text, [](int32_t p) { return p < 0x80; });
  if (name == "isprintable") return text.empty() || AllOf(text, IsPrintable);
  return std::nullopt;
}

size_t SpaceLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80)
    return first == ' ' || (first >= 0x09 && first <= 0x0D) || (first >= 0x1C && first <= 0x1F);
  for (const std::string_view space : {"\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\xA8", "\xE2\x80\xA9",
                                       "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"}) {
    if (text.substr(0, space.size()) == space) return space.size();
  }
  const bool en_quad_to_hair_space =
      text.size() > 2 && text.substr(0, 2) == "\xE2\x80" && static_cast<unsigned char>(text[2]) <= 0x8A;
  return en_quad_to_hair_space ? 3 : 0;
}

std::string_view StripSpace(std::string_view text, bool left, bool right) {
  for (size_t length; left && (length = SpaceLength(text)) > 0;) text.remove_prefix(length);
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
    NUMOE_DCHECK_LT(begin, text.size());
    if (SpaceLength(text.substr(begin)) != text.size() - begin) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace numoe::text::jinja
