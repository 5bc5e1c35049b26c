// Deltas are joined, and added up to an answer.
#include "coordinator/text/parsing/answer.h"

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using Kind = AnswerDelta::Kind;

TEST(AnswerTest, DeltasThatContinueOneTextAreJoined) {
  std::vector<AnswerDelta> deltas;
  Append({.kind = Kind::kContent, .text = "a"}, deltas);
  Append({.kind = Kind::kContent, .text = "b"}, deltas);
  Append({.kind = Kind::kReasoning, .text = "c"}, deltas);
  Append({.kind = Kind::kCallBegin, .call = 0, .id = "i", .name = "f"}, deltas);
  Append({.kind = Kind::kArguments, .text = "{", .call = 0}, deltas);
  Append({.kind = Kind::kArguments, .text = "}", .call = 0}, deltas);
  Append({.kind = Kind::kCallBegin, .call = 1, .id = "j", .name = "f"}, deltas);
  Append({.kind = Kind::kCallBegin, .call = 2, .id = "k", .name = "g"}, deltas);
  EXPECT_EQ(deltas.size(), 6u);
  ParsedAnswer answer;
  for (const AnswerDelta& delta : deltas) answer.Add(delta);
  EXPECT_EQ(answer, (ParsedAnswer{"c", "ab", {{"i", "f", "{}"}, {"j", "f", ""}, {"k", "g", ""}}}));
}

TEST(AnswerDeathTest, ArgumentsBelongToTheCallThatHasBegun) {
  ParsedAnswer answer;
  EXPECT_DEATH(answer.Add({.kind = Kind::kArguments, .text = "{", .call = 0}), "delta.call");
  EXPECT_DEATH(answer.Add({.kind = Kind::kCallBegin, .call = 1, .id = "i", .name = "f"}), "delta.call");
}

}  // namespace
}  // namespace numoe::text
