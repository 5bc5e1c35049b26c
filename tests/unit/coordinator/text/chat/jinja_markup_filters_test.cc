// Filters that escape, and those that write markup.
#include "coordinator/text/chat/jinja_filters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaMarkupFiltersTest, EscapeAndSafe) {
  EXPECT_EQ(Printed("'<' | e ~ ('<' | safe) ~ ('<' | e | forceescape)"), "&lt;<&amp;lt;");
  EXPECT_EQ(Printed("'a' | safe + '<'"), "a&lt;");
  EXPECT_EQ(Rendered("{% autoescape true %}{{ '<' }}{{ '<' | safe }}{% endautoescape %}{{ '<' }}"), "&lt;<<");
}

TEST(JinjaMarkupFiltersTest, AttributesAndQueries) {
  EXPECT_EQ(Printed("{'a': '<', 'b': none} | xmlattr"), " a=\"&lt;\"");
  EXPECT_THAT(Printed("{'a b': 1} | xmlattr"), HasSubstr("is not a valid name of an attribute"));
  EXPECT_EQ(Printed("{'a b': '/&'} | urlencode"), "a+b=%2F%26");
}

}  // namespace
}  // namespace numoe::text::jinja
