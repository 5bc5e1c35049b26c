// Normalising only the parts that may change is compared with normalising everything.
#include "coordinator/text/tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

std::string Everything(const std::string& text) {
  utf8proc_uint8_t* normal = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &normal,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(size, 0);
  std::string out(reinterpret_cast<const char*>(normal), static_cast<size_t>(size));
  std::free(normal);
  return out;
}

std::string Utf8(int32_t point) {
  utf8proc_uint8_t bytes[4];
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(utf8proc_encode_char(point, bytes))};
}

TEST(NfcTest, EveryCharacterAfterAndBeforeOthers) {
  std::string buffer;
  std::vector<int32_t> changed;
  for (int32_t point = 0; point < 0x110000; ++point) {
    if (!utf8proc_codepoint_valid(point)) continue;
    const std::string text = "e" + Utf8(point) + "\u0301\u0316x";
    ASSERT_EQ(Nfc(text, buffer), Everything(text)) << std::hex << point;
    if (Everything(Utf8(point)) != Utf8(point)) changed.push_back(point);
  }
  EXPECT_GT(changed.size(), 1000u);  // compatibility ideographs, singletons, ...
}

TEST(NfcTest, RandomSequencesOfCharactersThatNormalisationAffects) {
  std::vector<int32_t> known;
  for (int32_t point = 0; point < 0x110000; ++point) {
    if (!utf8proc_codepoint_valid(point)) continue;
    utf8proc_int32_t parts[32];
    const auto count = utf8proc_decompose_char(point, parts, 32, UTF8PROC_DECOMPOSE, nullptr);
    const bool hangul = point >= 0xAC00 && point <= 0xD7A3;
    if (utf8proc_get_property(point)->combining_class != 0 || (count > 1 && (!hangul || point % 97 == 0)))
      known.push_back(point);
    if (count > 1 && !hangul) known.insert(known.end(), parts, parts + count);
  }
  for (int32_t jamo = 0x1100; jamo < 0x1200; ++jamo) known.push_back(jamo);
  std::mt19937 random(1);
  std::string buffer;
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n)
      text += random() % 4 == 0 ? Utf8(static_cast<int32_t>('A' + random() % 60))
                                : Utf8(known[random() % known.size()]);
    ASSERT_EQ(Nfc(text, buffer), Everything(text)) << round;
  }
}

int Utf8Size(int32_t point) { return static_cast<int>(Utf8(point).size()); }

// Among the texts with the same decomposition, the longest has for each part the longest character that
// decomposes only into that part. Only one of these texts is in normal form.
TEST(NfcTest, NoTextShrinksToLessThanTheBound) {
  std::vector<int> longest(0x110000);
  std::vector<std::vector<utf8proc_int32_t>> parts(0x110000);
  for (int32_t point = 0; point < 0x110000; ++point) {
    if (!utf8proc_codepoint_valid(point)) continue;
    utf8proc_int32_t found[32];
    const auto count = utf8proc_decompose_char(point, found, 32, UTF8PROC_DECOMPOSE, nullptr);
    ASSERT_TRUE(count > 0 && count <= 32);
    parts[static_cast<size_t>(point)].assign(found, found + count);
    if (count == 1)
      longest[static_cast<size_t>(found[0])] =
          std::max(longest[static_cast<size_t>(found[0])], Utf8Size(point));
  }
  for (int32_t point = 0; point < 0x110000; ++point) {
    int most = 0;
    for (const utf8proc_int32_t part : parts[static_cast<size_t>(point)])
      most += longest[static_cast<size_t>(part)];
    if (most == 0) continue;  // not a character
    ASSERT_LE(Utf8Size(point), most) << std::hex << point << ": longer than its parts";
    ASSERT_LE(most, static_cast<int>(kNfcShrinkMax) * Utf8Size(point)) << std::hex << point;
  }
}

TEST(NfcTest, AMegabyteOfMarksIsNotQuadratic) {
  std::string text = "e", expected = "é";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0316";  // above, below
  for (int i = 0; i < 250'000; ++i) expected += "\u0316";
  for (int i = 1; i < 250'000; ++i) expected += "\u0301";  // one is combined with the letter
  std::string buffer;
  EXPECT_TRUE(Nfc(text, buffer) == expected);
}

TEST(NfcTest, TextInNormalFormIsNotCopied) {
  std::string buffer;
  for (const std::string text :
       {"", "plain", "naïve Zürich", "世界。你好，", "ПРИВЕТ 🙂 가나다 かな"}) {
    const std::string_view normal = Nfc(text, buffer);
    EXPECT_EQ(normal.data(), text.data()) << text;
    EXPECT_EQ(normal.size(), text.size());
  }
}

}  // namespace
}  // namespace numoe::text
