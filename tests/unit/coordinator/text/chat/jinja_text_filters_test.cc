// Filters of text.
#include "coordinator/text/chat/jinja_filters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaTextFiltersTest, TextIsWrappedAndTruncated) {
  EXPECT_EQ(Printed("'foo bar baz qux' | truncate(9)"), "foo...");
  EXPECT_EQ(Printed("'aaa bbb' | wordwrap(3, wrapstring='|')"), "aaa|bbb");
  EXPECT_THAT(Printed("'a' | truncate(2)"), HasSubstr("at least 3"));
}

TEST(JinjaTextFiltersTest, TitleCaseBeginsOnlyAfterSeparators) {
  EXPECT_EQ(Printed("\"they're (so) x-y\" | title"), "They're (So) X-Y");
}

TEST(JinjaTextFiltersTest, ArgumentsAreChecked) {
  EXPECT_THAT(Printed("'a' | replace('a')"), HasSubstr("replace: expected the argument 'new'"));
  EXPECT_THAT(Printed("'a' | upper(1)"), HasSubstr("upper takes at most 0 arguments"));
  EXPECT_THAT(Printed("'a' | center(widht=3)"), HasSubstr("center takes no argument 'widht'"));
}

}  // namespace
}  // namespace numoe::text::jinja
