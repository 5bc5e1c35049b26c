// Conversions that begin with a percent sign.
#include "coordinator/text/chat/jinja_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaPrintfTest, PercentConversions) {
  EXPECT_EQ(Printed("'%05.1f|%-4d|%s|%%' % (2.25, 7, 'x')"), "002.2|7   |x|%");
  EXPECT_THAT(Printed("'%s' % (1, 2)"), HasSubstr("not all arguments"));
  EXPECT_THAT(Printed("'%s %s' % 1"), HasSubstr("too few arguments"));
  EXPECT_THAT(Printed("'%999999999d' % 1"), HasSubstr("bytes of text"));
}

}  // namespace
}  // namespace numoe::text::jinja
