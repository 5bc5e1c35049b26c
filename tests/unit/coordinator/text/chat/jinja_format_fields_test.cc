// Replacement fields of str.format.
#include "coordinator/text/chat/jinja_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaFormatFieldsTest, FieldsOfAText) {
  EXPECT_THAT(Printed("'{} {0}'.format(1)"), HasSubstr("do not go together"));
  EXPECT_EQ(Printed("'{a[0]:>{w}}|{{}}'.format(a=['x'], w=3)"), "  x|{}");
  EXPECT_THAT(Printed("'{'.format(1)"), HasSubstr("stands alone"));
  EXPECT_THAT(Printed("'{:{:{}}}'.format(1, 2, 3)"), HasSubstr("too deeply"));
}

}  // namespace
}  // namespace numoe::text::jinja
