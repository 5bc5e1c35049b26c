// Access to the inside of a value, the check of values that are added to it, and the steps that are charged.
#include "coordinator/text/chat/jinja_access.h"

#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

Value DictOf(std::vector<std::pair<Value, Value>> items, bool is_namespace = false) {
  auto dict = std::make_shared<Dict>();
  dict->items = std::move(items);
  dict->is_namespace = is_namespace;
  return dict;
}

TEST(JinjaAccessTest, MethodsHideKeysButNotThoseOfNamespaces) {
  Rendering rendering;
  const std::vector<std::pair<Value, Value>> items = {{Value::Text("items"), int64_t{3}}};
  EXPECT_NE(Attribute(rendering, DictOf(items), "items").If<Callable>(), nullptr);
  EXPECT_EQ(Repr(Item(rendering, DictOf(items), Value::Text("items"))), "3");
  EXPECT_EQ(Repr(Attribute(rendering, DictOf(items, /*is_namespace=*/true), "items")), "3");
  EXPECT_TRUE(Attribute(rendering, DictOf(items), "more").undefined());
  EXPECT_FALSE(rendering.failed());
}

TEST(JinjaAccessTest, ItemsCountFromBothEnds) {
  Rendering rendering;
  const Value list = Value::NewList({int64_t{5}, int64_t{6}});
  EXPECT_EQ(Repr(Item(rendering, list, int64_t{-2})), "5");
  EXPECT_TRUE(Item(rendering, list, int64_t{2}).undefined());
  EXPECT_TRUE(Item(rendering, list, int64_t{-3}).undefined());
  EXPECT_EQ(Repr(Item(rendering, Value::Text("aü"), int64_t{-1})), "'ü'");
  EXPECT_EQ(Repr(Lookup(rendering, DictOf({{Value::Text("a"), list}}), Value::Text("a.1"))), "6");
  EXPECT_FALSE(rendering.failed());
  Item(rendering, Undefined{"x"}, int64_t{0});
  EXPECT_THAT(rendering.status().message(), HasSubstr("'x' is undefined: cannot read its item 0"));
}

TEST(JinjaAccessTest, LoopsSeeKeysAndCharacters) {
  Rendering rendering;
  EXPECT_EQ(Repr(Value::NewList(Iterate(rendering, DictOf({{Value::Text("k"), int64_t{1}}})))), "['k']");
  EXPECT_EQ(Repr(Value::NewList(Iterate(rendering, Value::Text("üb")))), "['ü', 'b']");
  EXPECT_TRUE(Iterate(rendering, Undefined{}).empty());
  EXPECT_FALSE(rendering.failed());
  Iterate(rendering, int64_t{3});
  EXPECT_THAT(rendering.status().message(), HasSubstr("cannot iterate over"));
}

TEST(JinjaAccessTest, LoopsOverTextAreCharged) {
  Rendering rendering;
  ASSERT_TRUE(rendering.Charge(limits::kTemplateStepsMax - 2));
  Iterate(rendering, Value::Text("ab"));
  EXPECT_FALSE(rendering.failed());
  Iterate(rendering, Value::Text("c"));
  EXPECT_THAT(rendering.status().message(), HasSubstr("steps"));
}

TEST(JinjaAccessTest, AValueMayNotContainItself) {
  Rendering rendering;
  const auto list = std::make_shared<List>();
  const Value inside = Value::NewList({Value(list)});
  EXPECT_TRUE(MayHold(rendering, inside.list(), Value(list)));
  EXPECT_FALSE(MayHold(rendering, list.get(), inside));
  EXPECT_THAT(rendering.status().message(), HasSubstr("a list would contain itself"));
}

}  // namespace
}  // namespace numoe::text::jinja
