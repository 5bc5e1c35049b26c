#include "coordinator/text/tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "coordinator/text/tokenizer/utf8.h"

namespace numoe::text {
namespace {

constexpr int32_t kCodePoints = 0x110000;
constexpr size_t kPartsMax =
    32;  // the parts of a character; Unicode's longest canonical decomposition has four

struct Character {
  int32_t point;
  size_t length;
};

Character CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const int32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  NUMOE_DCHECK(first >= 0xC2 && at + length <= text.size()) << "valid UTF-8";
  int32_t point = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3F);
  return {point, length};
}

int CombiningClass(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

// Sorts the marks of each character by their classes. utf8proc's own sorting takes quadratic time, and a text
// can be a megabyte of marks.
void OrderMarks(std::vector<utf8proc_int32_t>& points) {
  for (auto begin = points.begin(); begin != points.end();) {
    const auto is_mark = [](utf8proc_int32_t point) { return CombiningClass(point) != 0; };
    begin = std::find_if(begin, points.end(), is_mark);
    const auto end = std::find_if_not(begin, points.end(), is_mark);
    std::stable_sort(begin, end, [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

void AppendNfc(std::string_view text, std::string& out) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<utf8proc_int32_t> points;
  for (size_t at = 0; at < text.size();) {
    const Character c = CharacterAt(text, at);
    std::array<utf8proc_int32_t, kPartsMax> parts;
    const auto count = utf8proc_decompose_char(c.point, parts.data(), parts.size(), kOptions, nullptr);
    NUMOE_CHECK(count >= 0 && static_cast<size_t>(count) <= parts.size());
    points.insert(points.end(), parts.begin(), parts.begin() + count);
    at += c.length;
  }
  OrderMarks(points);
  const auto count =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kOptions);
  NUMOE_CHECK_GE(count, 0);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto length = static_cast<size_t>(utf8proc_encode_char(points[i], bytes.data()));
    out.append(reinterpret_cast<const char*>(bytes.data()), length);
  }
}

// Finds the characters that normalisation may change, move, or join to the character before them. A part of a
// text without such characters is in normal form, whatever is around it.
std::unique_ptr<std::bitset<kCodePoints>> FindNonInert() {
  auto non_inert = std::make_unique<std::bitset<kCodePoints>>();
  std::string normal;
  for (int32_t point = 0; point < kCodePoints; ++point) {
    if (!utf8proc_codepoint_valid(point)) continue;
    std::array<utf8proc_int32_t, kPartsMax> parts;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(point, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, nullptr);
    NUMOE_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
    for (size_t i = 1; i < static_cast<size_t>(count); ++i) non_inert->set(static_cast<size_t>(parts[i]));
    if (CombiningClass(point) != 0) non_inert->set(static_cast<size_t>(point));
    if (count == 1 && parts[0] == point) continue;
    std::array<utf8proc_uint8_t, 4> bytes;
    const std::string_view self(reinterpret_cast<const char*>(bytes.data()),
                                static_cast<size_t>(utf8proc_encode_char(point, bytes.data())));
    normal.clear();
    AppendNfc(self, normal);
    if (normal != self) non_inert->set(static_cast<size_t>(point));
  }
  return non_inert;
}

}  // namespace

std::string_view Nfc(std::string_view text, std::string& buffer) {
  static const std::bitset<kCodePoints>& non_inert = *FindNonInert().release();
  buffer.clear();
  size_t done = 0;    // the text before this is in the buffer
  size_t before = 0;  // the last inert character
  for (size_t at = 0; at < text.size();) {
    if (const size_t ascii = AsciiPrefix(text.substr(at)); ascii > 0) {
      at += ascii;
      before = at - 1;
      continue;
    }
    Character c = CharacterAt(text, at);
    if (!non_inert.test(static_cast<size_t>(c.point))) {
      before = at;
      at += c.length;
      continue;
    }
    size_t end = at;
    for (; end < text.size(); end += c.length) {
      c = CharacterAt(text, end);
      if (!non_inert.test(static_cast<size_t>(c.point))) break;
    }
    buffer.append(text.substr(done, before - done));
    AppendNfc(text.substr(before, end - before), buffer);
    done = before = at = end;
  }
  if (done == 0) return text;
  buffer.append(text.substr(done));
  return buffer;
}

}  // namespace numoe::text
