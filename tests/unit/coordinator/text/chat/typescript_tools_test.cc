// Tool declarations are compared with those of the published code (testdata/typescript_tools.json, written by
// tests/golden/typescript_cases.py).
#include "coordinator/text/chat/typescript_tools.h"

#include "common/weights/mapped_file.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

TEST(TypeScriptToolsTest, DeclarationsEqualThoseOfThePublishedCode) {
  const auto text = ReadTextFile("tests/unit/coordinator/text/chat/testdata/typescript_tools.json", 1 << 24);
  ASSERT_TRUE(text.ok()) << text.status();
  const ordered_json cases = ordered_json::parse(*text);
  ASSERT_GT(cases.size(), 100u);
  for (const ordered_json& item : cases) {
    const std::optional<std::string> typescript = ToolsAsTypeScript(SortKeys(item["tools"]));
    EXPECT_EQ(typescript ? ordered_json(*typescript) : ordered_json(nullptr), item["text"])
        << item["tools"].dump();
  }
}

TEST(TypeScriptToolsTest, KeysAreSortedAtEveryDepth) {
  const ordered_json value =
      ordered_json::parse(R"([{"b": 1, "a": [{"ü": 1, "Z": {"y": 2, "x": 3}}], "C": null}])");
  EXPECT_EQ(SortKeys(value).dump(), R"([{"C":null,"a":[{"Z":{"x":3,"y":2},"ü":1}],"b":1}])");
}

}  // namespace
}  // namespace numoe::text
