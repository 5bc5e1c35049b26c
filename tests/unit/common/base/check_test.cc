// NUMOE_CHECK prints which condition failed, where, and the values that it found.
#include "common/base/check.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(CheckTest, ATrueConditionHasNoOtherEffect) {
  int evaluated = 0;
  const auto text = [&] {
    ++evaluated;
    return "never";
  };
  NUMOE_CHECK(true) << text();
  NUMOE_CHECK_EQ(1, 1) << text();
  EXPECT_EQ(evaluated, 0);
  if (evaluated == 0)
    NUMOE_CHECK(true);
  else
    FAIL() << "the macro is one statement";
}

TEST(CheckDeathTest, TheMessageHasPlaceConditionAndText) {
  EXPECT_DEATH(NUMOE_CHECK(1 + 1 == 3) << "sum of " << 2,
               "numoe: .*check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3 sum of 2");
}

TEST(CheckDeathTest, ComparisonsSayBothSides) {
  const int a = 3, b = 5;
  EXPECT_DEATH(NUMOE_CHECK_EQ(a, b), "\\(a\\)==\\(b\\) +\\(3 vs 5\\)");
  EXPECT_DEATH(NUMOE_CHECK_NE(a, 3), "3 vs 3");
  EXPECT_DEATH(NUMOE_CHECK_LT(b, a), "5 vs 3");
  EXPECT_DEATH(NUMOE_CHECK_LE(b, a), "5 vs 3");
  EXPECT_DEATH(NUMOE_CHECK_GT(a, b), "3 vs 5");
  EXPECT_DEATH(NUMOE_CHECK_GE(a, b), "3 vs 5");
  NUMOE_CHECK_LE(a, 3);
  NUMOE_CHECK_GE(a, 3);
}

TEST(CheckDeathTest, DebugChecksExistInDebugBuildsOnly) {
#ifdef NDEBUG
  bool evaluated = false;
  NUMOE_DCHECK((evaluated = true, false)) << "compiles, and is never evaluated";
  EXPECT_FALSE(evaluated);
#else
  EXPECT_DEATH(NUMOE_DCHECK(false) << "wrong", "wrong");
#endif
}

}  // namespace
}  // namespace numoe
