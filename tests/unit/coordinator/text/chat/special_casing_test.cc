// Letters whose upper case is several letters.
#include "coordinator/text/chat/special_casing.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

TEST(SpecialCasingTest, OnlyLettersInTheTableHaveASpecialCase) {
  ASSERT_NE(FindSpecialCase(0xDF), nullptr);
  EXPECT_EQ(FindSpecialCase(0xDF)->upper, "SS");
  EXPECT_EQ(FindSpecialCase(0xDF)->title, "Ss");
  EXPECT_EQ(FindSpecialCase(0xFB17)->upper, "\u0544\u053d");
  for (const int32_t point : {0, int32_t{'a'}, 0xDE, 0xE0, 0xFB18, 0x10FFFF})
    EXPECT_EQ(FindSpecialCase(point), nullptr);
}

}  // namespace
}  // namespace numoe::text::jinja
