// Filters of numbers.
#include "coordinator/text/chat/jinja_filters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaNumberFiltersTest, RoundsLikePython) {
  EXPECT_EQ(Printed("(2.5 | round, 2.675 | round(2), 42 | round, 42.55 | round(1, 'floor'))"),
            "(2.0, 2.67, 42, 42.5)");
}

TEST(JinjaNumberFiltersTest, ReadsNumbersInText) {
  EXPECT_EQ(Printed("('0x1f' | int(0, 16), '1_0' | int, 'x' | int(7), '.5' | float)"), "(31, 10, 7, 0.5)");
  EXPECT_THAT(Printed("'9223372036854775808' | int"), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(Printed("x | int"), HasSubstr("'x' is undefined"));
}

TEST(JinjaNumberFiltersTest, SizesOfFiles) {
  EXPECT_EQ(Printed("(1 | filesizeformat, 1500000 | filesizeformat, 1024 | filesizeformat(true))"),
            "('1 Byte', '1.5 MB', '1.0 KiB')");
}

}  // namespace
}  // namespace numoe::text::jinja
