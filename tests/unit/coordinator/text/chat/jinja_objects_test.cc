// Loops, cyclers and joiners as templates see them.
#include "coordinator/text/chat/jinja_objects.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaObjectsTest, LoopsKnowTheirPosition) {
  EXPECT_EQ(Rendered("{% for x in 'ab' %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.last }}{{ loop.nextitem "
                     "}} {% endfor %}"),
            "11Falseb 20True ");
  EXPECT_EQ(Rendered("{% for x in 'ab' %}{{ loop.cycle(1, 2) }}{{ loop }}{% endfor %}"),
            "1<LoopContext 1/2>2<LoopContext 2/2>");
  EXPECT_EQ(Rendered("{% for x in 'aab' %}{{ loop.changed(x) }}{% endfor %}"), "TrueFalseTrue");
  EXPECT_THAT(Rendered("{% for x in 'a' %}{{ loop.cycle() }}{% endfor %}"), HasSubstr("expected items"));
}

TEST(JinjaObjectsTest, CyclersBeginAgainAfterTheLastItem) {
  EXPECT_EQ(Rendered("{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ "
                     "c.reset() }}{{ c.current }}"),
            "1212None1");
}

TEST(JinjaObjectsTest, TheFirstCallOfAJoinerIsEmpty) {
  EXPECT_EQ(Rendered("{% set j = joiner('|') %}{{ j() }}a{{ j() }}b"), "a|b");
}

}  // namespace
}  // namespace numoe::text::jinja
