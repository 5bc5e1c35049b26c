// The names in Kimi's ids. Whole answers are tested in
// tests/unit/coordinator/serving/api/kimi_answers_test.cc.
#include "coordinator/text/parsing/kimi_calls.h"

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

TEST(KimiCallsTest, NamesFromIds) {
  const std::pair<const char*, const char*> cases[] = {{"functions.get_weather:0", "get_weather"},
                                                       {"functions.get_weather:123", "get_weather"},
                                                       {" functions.get_\nweather:0\t", "get_weather"},
                                                       {"functions.a.b-c:1", "a.b-c"},
                                                       {"functions.functions.f:1", "functions.f"},
                                                       {"functions.a:b:1", "a:b"},
                                                       {"functions.a:b", "a:b"},
                                                       {"functions.a:", "a"},
                                                       {"a:0", "a"},
                                                       {"a", "a"},
                                                       {"functions.f2:0", "f2"},
                                                       {"3", ""},
                                                       {"functions.3", ""},
                                                       {"functions.3:0", ""},
                                                       {":3", ""},
                                                       {"", ""},
                                                       {"functions.", ""}};
  for (const auto& [id, name] : cases) EXPECT_EQ(KimiCallName(id), name) << id;
}

}  // namespace
}  // namespace numoe::text
