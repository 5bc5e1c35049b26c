#include "coordinator/tokenizer/utf8.h"

namespace numoe {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

int Utf8Step(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  // Range of the second byte: tighter than 80..BF where that would be overlong, a surrogate or beyond
  // U+10FFFF.
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

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const int step = Utf8Step(text);
    if (step > 0) {
      out.append(text.substr(0, step));
      text.remove_prefix(step);
    } else {
      out.append(kReplacement);
      if (step == 0) break;
      text.remove_prefix(-step);
    }
  }
  return out;
}

}  // namespace numoe
