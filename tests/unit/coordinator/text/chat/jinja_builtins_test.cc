// Arguments of calls, by position and by keyword.
#include "coordinator/text/chat/jinja_builtins.h"

#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

TEST(JinjaBuiltinsTest, AnArgumentIsFoundByPositionThenByName) {
  const Arguments args{.positional = {Value::Text("first"), None{}},
                       .keywords = {{"a", Value::Text("hidden")}, {"c", int64_t{3}}}};
  EXPECT_EQ(args.Text(0, "a", "-"), "first");
  EXPECT_EQ(args.Text(1, "b", "-"), "-") << "none counts as not given";
  EXPECT_NE(args.Get(1, "b"), nullptr);
  EXPECT_EQ(args.Text(2, "c", "-"), "3");
  EXPECT_EQ(args.Get(2, "d"), nullptr);
  EXPECT_EQ(args.Text(2, "d", "-"), "-");
}

}  // namespace
}  // namespace numoe::text::jinja
