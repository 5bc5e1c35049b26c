// Derivations that are followed at the same time: calls, returns, ambiguity, and truncation.
#include "coordinator/text/grammar/pushdown.h"

#include <functional>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

struct Runner {
  explicit Runner(const std::function<ExprId(Expressions&, RuleId root)>& body) {
    Expressions expressions;
    const RuleId root = expressions.AddRule("root", true);
    expressions.SetBody(root, body(expressions, root));
    auto built = Program::Build(expressions, root, {});
    EXPECT_TRUE(built.ok()) << built.status();
    program = std::make_unique<Program>(*std::move(built));
    pushdown = std::make_unique<Pushdown>(program.get());
  }
  Kernel After(std::string_view text) {
    Kernel here = pushdown->Start(), next;
    for (const char byte : text) {
      pushdown->Step(here, static_cast<uint8_t>(byte), next);
      std::swap(here, next);
    }
    return here;
  }
  std::unique_ptr<Program> program;
  std::unique_ptr<Pushdown> pushdown;
};

ExprId Brackets(Expressions& e, RuleId root) {
  return e.Repeat(e.Sequence({e.Literal("("), e.Call(root), e.Literal(")")}), 0, kUnbounded);
}

TEST(PushdownTest, NestingOfAnyDepth) {
  Runner machine(Brackets);
  EXPECT_TRUE(machine.After("").reached_base);
  EXPECT_TRUE(machine.After("(()())").reached_base);
  EXPECT_FALSE(machine.After("(()").reached_base);
  EXPECT_TRUE(machine.After("(()").alive());
  EXPECT_FALSE(machine.After("())").alive());
  EXPECT_TRUE(machine.After(std::string(2000, '(') + std::string(2000, ')')).reached_base);
}

TEST(PushdownTest, NextBytesAreThoseThatStepAccepts) {
  Runner machine(Brackets);
  for (const char* text : {"", "(", "()", "((", "(())"}) {
    const Kernel here = machine.After(text);
    const ByteSet bytes = machine.pushdown->NextBytes(here);
    Kernel next;
    for (unsigned b = 0; b < 256; ++b) {
      machine.pushdown->Step(here, static_cast<uint8_t>(b), next);
      EXPECT_EQ(bytes.test(b), next.alive()) << text << " " << b;
    }
  }
}

TEST(PushdownTest, DerivationsInTheSameStateAreMerged) {
  // s = "a" | "a" s | "a" "a" s: exponentially many derivations
  Runner machine([](Expressions& e, RuleId root) {
    return e.Choice({e.Literal("a"), e.Sequence({e.Literal("a"), e.Call(root)}),
                     e.Sequence({e.Literal("aa"), e.Call(root)})});
  });
  const Kernel here = machine.After(std::string(500, 'a'));
  EXPECT_TRUE(here.reached_base);
  EXPECT_FALSE(machine.pushdown->overflowed());
  EXPECT_LT(machine.pushdown->steps(), 500u * 50);
}

TEST(PushdownTest, TruncatingFramesUndoesSteps) {
  Runner machine(Brackets);
  const Kernel before = machine.After("((");
  const size_t frames = machine.pushdown->frames().size();
  Kernel deeper, here;
  machine.pushdown->Step(before, '(', deeper);
  EXPECT_GT(machine.pushdown->frames().size(), frames);
  machine.pushdown->frames().Truncate(frames);
  machine.pushdown->Step(before, ')', here);
  machine.pushdown->Step(here, ')', deeper);
  EXPECT_TRUE(deeper.reached_base);
}

TEST(FramesTest, EqualParentsAreOneFrame) {
  Frames frames;
  const FrameId one = frames.Intern({{.state = 3, .frame = kBase}});
  EXPECT_EQ(frames.Intern({{.state = 3, .frame = kBase}}), one);
  const FrameId two = frames.Intern({{.state = 3, .frame = kBase}, {.state = 4, .frame = one}});
  EXPECT_NE(two, one);
  EXPECT_EQ(frames.Parents(two).size(), 2u);
  frames.Truncate(2);
  EXPECT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames.Intern({{.state = 5, .frame = one}}), two) << "the place of a removed frame is free";
}

}  // namespace
}  // namespace numoe::text::grammar
