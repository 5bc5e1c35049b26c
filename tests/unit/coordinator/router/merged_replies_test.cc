// The answers of several backends are merged into one.
#include "coordinator/router/merged_replies.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::router {
namespace {

using nlohmann::json;

std::vector<NamedReply> Replies(const std::vector<std::string>& bodies) {
  std::vector<NamedReply> replies;
  for (const std::string& body : bodies)
    replies.push_back({"http://" + std::string(1, static_cast<char>('a' + replies.size())), body});
  return replies;
}

TEST(MergedReplies, EveryModelIsListedOnce) {
  const json merged =
      json::parse(MergeModels(Replies({R"({"object": "list", "data": [{"id": "a"}, {"id": "b"}]})",
                                       R"({"object": "list", "data": [{"id": "b"}, {"id": "c"}]})"})));
  EXPECT_EQ(merged, json::parse(R"({"object": "list", "data": [{"id": "a"}, {"id": "b"}, {"id": "c"}]})"));
}

TEST(MergedReplies, NumbersAreAddedUp) {
  EXPECT_EQ(
      json::parse(MergeSums(Replies({R"({"running": 2, "share": 0.5, "name": "x"})",
                                     R"({"running": 3, "share": 0.25, "name": "y"})", R"({"running": 4})"}))),
      json::parse(R"({"running": 9, "share": 0.75, "name": "x"})"));
  EXPECT_EQ(MergeSums(Replies({"{}", "{}"})), "{}");
}

TEST(MergedReplies, AllStatesAreListedWithTheirBackend) {
  EXPECT_EQ(json::parse(MergeServerInfo(Replies({R"({"v": 1, "internal_states": [{"running": 1}]})", "broken",
                                                 R"({"v": 2, "internal_states": [{"running": 3}, 7]})",
                                                 R"({"internal_states": 1})"}))),
            json::parse(R"({"v": 1, "internal_states": [{"running": 1, "backend": "http://a"},
                                                        {"running": 3, "backend": "http://c"}, 7]})"));
}

TEST(MergedReplies, AReplyThatIsNotAnObjectIsLeftOut) {
  for (const auto merge : {MergeModels, MergeSums, MergeServerInfo}) {
    EXPECT_EQ(merge({}), "{}");
    EXPECT_EQ(merge(Replies({"", "[1]", "<html>"})), "{}");
  }
  EXPECT_EQ(MergeSums(Replies({"broken", R"({"n": 1})", R"({"n": "x"})"})), R"({"n":1})");
}

}  // namespace
}  // namespace numoe::router
