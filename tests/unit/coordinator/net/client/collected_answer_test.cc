#include "coordinator/net/client/collected_answer.h"

#include <gtest/gtest.h>

#include "coordinator/net/client/client_limits.h"

namespace numoe::net {
namespace {

TEST(CollectedAnswer, PutsPiecesTogether) {
  CollectedAnswer answer;
  answer.Add({.reasoning = "a"});
  answer.Add({.reasoning = "b", .content = "c"});
  answer.Add({.content = "d", .calls = {{.index = 1, .id = "second", .name = "g", .arguments = "{"}}});
  answer.Add({.calls = {{.index = 0, .id = "first", .name = "f", .arguments = "[]"},
                        {.index = 1, .arguments = "}"}}});
  answer.Add({.finish_reason = "tool_calls"});
  answer.Add({.usage = ReportedUsage{.completion_tokens = 5}});
  EXPECT_EQ(answer.reasoning, "ab");
  EXPECT_EQ(answer.content, "cd");
  ASSERT_EQ(answer.calls.size(), 2u);
  EXPECT_EQ(answer.calls[0].id, "first");
  EXPECT_EQ(answer.calls[0].arguments, "[]");
  EXPECT_EQ(answer.calls[1].name, "g");
  EXPECT_EQ(answer.calls[1].arguments, "{}");
  EXPECT_EQ(answer.finish_reason, "tool_calls");
  EXPECT_EQ(answer.usage->completion_tokens, 5);
}

TEST(CollectedAnswer, CallsBeyondTheLimitAreDropped) {
  CollectedAnswer answer;
  for (const int64_t index : {int64_t{limits::kAnswerCallsMax}, int64_t{1} << 60})
    answer.Add({.calls = {{.index = index, .name = "f"}}});
  EXPECT_TRUE(answer.calls.empty());
}

}  // namespace
}  // namespace numoe::net
