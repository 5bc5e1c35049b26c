#include "coordinator/tokenizer/nfc.h"

#include <utf8proc.h>

#include <array>
#include <bitset>
#include <cstdlib>
#include <memory>

#include "common/base/check.h"
#include "coordinator/tokenizer/utf8.h"

namespace numoe {
namespace {

constexpr int32_t kCodePoints = 0x110000;

void AppendNfc(std::string_view text, std::string& out) {
  utf8proc_uint8_t* normal = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &normal, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  NUMOE_CHECK_GE(size, 0) << utf8proc_errmsg(size);  // only invalid text or no memory
  out.append(reinterpret_cast<const char*>(normal), static_cast<size_t>(size));
  std::free(normal);
}

// Characters before which a text cannot simply be cut: they move or join to what is before them, or become
// others. Any stretch without them is in normal form, whatever surrounds it.
std::unique_ptr<std::bitset<kCodePoints>> FindRestless() {
  auto restless = std::make_unique<std::bitset<kCodePoints>>();
  std::string normal;
  for (int32_t point = 0; point < kCodePoints; ++point) {
    if (!utf8proc_codepoint_valid(point)) continue;
    std::array<utf8proc_int32_t, 32> parts;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(point, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, nullptr);
    NUMOE_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
    for (size_t i = 1; i < static_cast<size_t>(count); ++i) restless->set(static_cast<size_t>(parts[i]));
    if (utf8proc_get_property(point)->combining_class != 0) restless->set(static_cast<size_t>(point));
    if (count == 1 && parts[0] == point) continue;
    std::array<utf8proc_uint8_t, 4> bytes;
    const std::string_view self(reinterpret_cast<const char*>(bytes.data()),
                                static_cast<size_t>(utf8proc_encode_char(point, bytes.data())));
    normal.clear();
    AppendNfc(self, normal);
    if (normal != self) restless->set(static_cast<size_t>(point));
  }
  return restless;
}

struct Character {
  int32_t point;
  size_t length;
};

Character CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const int32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  int32_t point = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3F);
  return {point, length};
}

}  // namespace

std::string_view Nfc(std::string_view text, std::string& buffer) {
  static const std::bitset<kCodePoints>& restless = *FindRestless().release();
  buffer.clear();
  size_t done = 0;    // in the buffer
  size_t before = 0;  // the last character that is not restless
  for (size_t at = 0; at < text.size();) {
    if (const size_t ascii = AsciiPrefix(text.substr(at)); ascii > 0) {
      at += ascii;
      before = at - 1;
      continue;
    }
    Character c = CharacterAt(text, at);
    if (!restless.test(static_cast<size_t>(c.point))) {
      before = at;
      at += c.length;
      continue;
    }
    size_t end = at;
    for (; end < text.size(); end += c.length) {
      c = CharacterAt(text, end);
      if (!restless.test(static_cast<size_t>(c.point))) break;
    }
    buffer.append(text.substr(done, before - done));
    AppendNfc(text.substr(before, end - before), buffer);
    done = before = at = end;
  }
  if (done == 0) return text;
  buffer.append(text.substr(done));
  return buffer;
}

}  // namespace numoe
