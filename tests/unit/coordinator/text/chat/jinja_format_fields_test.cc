// Replacement fields of str.format.
#include "coordinator/text/chat/jinja_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaFormatFieldsTest, FieldsOfAText) {
  EXPECT_THAT(Printed("'{} {0}'.format(1)"), HasSubstr("cannot be mixed"));
  EXPECT_EQ(Printed("'{a[0]:>{w}}|{{}}'.format(a=['x'], w=3)"), "  x|{}");
  EXPECT_THAT(Printed("'{'.format(1)"), HasSubstr("is not part of a field"));
  EXPECT_THAT(Printed("'{:{:{}}}'.format(1, 2, 3)"), HasSubstr("too deeply"));
}

}  // namespace
}  // namespace numoe::text::jinja
