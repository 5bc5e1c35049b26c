// Fast paths for valid text, and for ASCII, are compared with the step-by-step definition.
#include "coordinator/text/tokenizer/utf8.h"

#include <random>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

std::string StepByStep(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const int step = Utf8Step(text);
    out += step > 0 ? std::string(text.substr(0, static_cast<size_t>(step))) : "\uFFFD";
    if (step == 0) break;
    text.remove_prefix(static_cast<size_t>(step > 0 ? step : -step));
  }
  return out;
}

TEST(Utf8Test, FastReplacementEqualsTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (size_t n = random() % 30; n > 0; --n) {
      switch (random() % 5) {
        case 0:
          text += static_cast<char>(random());
          break;
        case 1:
          text += "世";
          break;
        default:
          text += static_cast<char>('a' + random() % 26);
      }
    }
    if (random() % 4 == 0) text += "\xf0\x9f\x99";
    ASSERT_EQ(ReplaceInvalidUtf8(text), StepByStep(text)) << round;
    std::string appended = "before";
    AppendValidUtf8(text, appended);
    ASSERT_EQ(appended, "before" + StepByStep(text));
  }
}

TEST(Utf8Test, AsciiPrefixStopsBeforeOtherCharacters) {
  for (size_t length = 0; length < 40; ++length) {
    const std::string ascii(length, 'a');
    EXPECT_LE(AsciiPrefix(ascii), length);
    EXPECT_GT(AsciiPrefix(ascii) + 8, length);
    EXPECT_LE(AsciiPrefix(ascii + "é and more of it"), length);
    EXPECT_GT(AsciiPrefix(ascii + "é and more of it") + 8, length);
  }
}

}  // namespace
}  // namespace numoe::text
