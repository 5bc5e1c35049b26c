#include "coordinator/text/tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

#include "common/base/check.h"

namespace numoe::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

int Utf8Step(std::string_view text) {
  NUMOE_DCHECK(!text.empty());
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  // The range of the second byte. It is smaller than 80..BF where that would allow an overlong form, a
  // surrogate or a code point beyond U+10FFFF.
  int length = 0;
  unsigned low = 0x80, high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return -1;
  }
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) >= text.size()) return 0;
    if (byte(i) < low || byte(i) > high) return -i;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

size_t AsciiPrefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t at = 0;
  for (uint64_t word; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  return at;
}

void AppendValidUtf8(std::string_view text, std::string& out) {
  size_t done = 0, at = 0;
  while (at < text.size()) {
    at += AsciiPrefix(text.substr(at));
    NUMOE_DCHECK(done <= at && at <= text.size());
    if (at == text.size()) break;
    const int step = Utf8Step(text.substr(at));
    if (step > 0) {
      at += static_cast<size_t>(step);
      continue;
    }
    out.append(text.substr(done, at - done)).append(kReplacement);
    at = done = step == 0 ? text.size() : at + static_cast<size_t>(-step);
  }
  out.append(text.substr(done));
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  AppendValidUtf8(text, out);
  return out;
}

}  // namespace numoe::text
