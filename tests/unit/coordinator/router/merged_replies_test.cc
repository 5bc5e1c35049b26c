// Answers of several backends become one server's.
#include "coordinator/router/merged_replies.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe {
namespace {

using nlohmann::json;

TEST(MergedReplies, EveryModelComesOnce) {
  const json merged = json::parse(MergeModels({R"({"object": "list", "data": [{"id": "a"}, {"id": "b"}]})",
                                               R"({"object": "list", "data": [{"id": "b"}, {"id": "c"}]})"}));
  EXPECT_EQ(merged, json::parse(R"({"object": "list", "data": [{"id": "a"}, {"id": "b"}, {"id": "c"}]})"));
}

TEST(MergedReplies, NumbersAreAddedUp) {
  EXPECT_EQ(json::parse(MergeSums({R"({"running": 2, "share": 0.5, "name": "x"})",
                                   R"({"running": 3, "share": 0.25, "name": "y"})", R"({"running": 4})"})),
            json::parse(R"({"running": 9, "share": 0.75, "name": "x"})"));
  EXPECT_EQ(MergeSums({"{}", "{}"}), "{}");
}

TEST(MergedReplies, EverybodysStatesAreThere) {
  EXPECT_EQ(json::parse(MergeServerInfo({R"({"v": 1, "internal_states": [{"running": 1}]})",
                                         R"({"v": 1, "internal_states": [{"running": 1}]})"})),
            json::parse(R"({"v": 1, "internal_states": [{"running": 1}, {"running": 1}]})"));
}

TEST(MergedReplies, WhatIsNoObjectIsLeftOut) {
  for (const auto merge : {MergeModels, MergeSums, MergeServerInfo}) {
    EXPECT_EQ(merge({}), "{}");
    EXPECT_EQ(merge({"", "[1]", "<html>"}), "{}");
  }
  EXPECT_EQ(MergeSums({"broken", R"({"n": 1})", R"({"n": "x"})"}), R"({"n":1})");
}

}  // namespace
}  // namespace numoe
