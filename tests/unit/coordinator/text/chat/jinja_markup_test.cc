// Text that is escaped once or again, and the trust of the result.
#include "coordinator/text/chat/jinja_markup.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

TEST(JinjaMarkupTest, MarkupIsEscapedOnce) {
  const Str once = Escaped(Str("<a & 'b' \"", true));
  EXPECT_EQ(once.text(), "&lt;a &amp; &#39;b&#39; &#34;");
  EXPECT_TRUE(once.markup() && once.AllTrusted());
  EXPECT_EQ(Escaped(once).text(), once.text());
  EXPECT_EQ(EscapedAgain(Str("&lt;", true).AsMarkup()).text(), "&amp;lt;");
}

TEST(JinjaMarkupTest, EntitiesOfARequestAreUntrusted) {
  Str mixed("<", true);
  mixed.Append(Str("<", false));
  const std::vector<TextSegment> segments = Escaped(mixed).Segments();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_TRUE(segments[0].trusted);
  EXPECT_FALSE(segments[1].trusted);
}

TEST(JinjaMarkupTest, TagsAndCommentsAreRemoved) {
  EXPECT_EQ(StripTags("<p>a <!-- <b> --> c\n</p> &lt;&#65;&#x42;&nope;"), "a c <AB&nope;");
  EXPECT_EQ(StripTags("a < b"), "a < b");
}

}  // namespace
}  // namespace numoe::text::jinja
