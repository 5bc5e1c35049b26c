#include "coordinator/text/chat/jinja_text.h"

#include <utf8proc.h>

#include "absl/functional/function_ref.h"
#include "common/base/check.h"

namespace numoe::text::jinja {
namespace {

// Calls `map(point, index)` for every code point and joins the results.
std::string Map(std::string_view text, absl::FunctionRef<utf8proc_int32_t(utf8proc_int32_t, size_t)> map) {
  std::string out;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t at = 0;
  for (size_t i = 0; at < text.size(); ++i) {
    utf8proc_int32_t point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (length <= 0) {
      out += text[at++];
      continue;
    }
    NUMOE_DCHECK_LE(at + static_cast<size_t>(length), text.size());
    utf8proc_uint8_t buffer[4];
    out.append(reinterpret_cast<char*>(buffer),
               static_cast<size_t>(utf8proc_encode_char(map(point, i), buffer)));
    at += static_cast<size_t>(length);
  }
  return out;
}

bool IsLetter(utf8proc_int32_t point) {
  return utf8proc_tolower(point) != point || utf8proc_toupper(point) != point;
}

}  // namespace

std::string Lower(std::string_view text) {
  return Map(text, [](utf8proc_int32_t p, size_t) { return utf8proc_tolower(p); });
}
std::string Upper(std::string_view text) {
  return Map(text, [](utf8proc_int32_t p, size_t) { return utf8proc_toupper(p); });
}
std::string Title(std::string_view text) {
  bool inside = false;
  return Map(text, [&](utf8proc_int32_t p, size_t) {
    const utf8proc_int32_t mapped = inside ? utf8proc_tolower(p) : utf8proc_totitle(p);
    inside = IsLetter(p);
    return mapped;
  });
}
std::string Capitalize(std::string_view text) {
  return Map(text,
             [](utf8proc_int32_t p, size_t i) { return i == 0 ? utf8proc_totitle(p) : utf8proc_tolower(p); });
}
bool IsLower(std::string_view text) { return Upper(text) != text && Lower(text) == text; }
bool IsUpper(std::string_view text) { return Lower(text) != text && Upper(text) == text; }

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
