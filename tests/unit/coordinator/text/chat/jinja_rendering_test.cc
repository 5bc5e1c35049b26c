// The first error of a rendering, and the steps that it may take.
#include "coordinator/text/chat/jinja_rendering.h"

#include "coordinator/text/chat/chat_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaRenderingTest, TheFirstErrorStays) {
  Rendering rendering;
  rendering.At(3);
  EXPECT_TRUE(rendering.Fail("one").undefined());
  rendering.At(4);
  rendering.Fail("two");
  EXPECT_EQ(rendering.status(), absl::InvalidArgumentError("line 3: one"));
  EXPECT_FALSE(rendering.Charge(1));
}

TEST(JinjaRenderingTest, StepsAreBounded) {
  Rendering rendering;
  EXPECT_TRUE(rendering.Charge(limits::kTemplateStepsMax));
  EXPECT_TRUE(rendering.Charge(0));
  EXPECT_FALSE(rendering.Charge(1));
  EXPECT_THAT(rendering.status().message(), HasSubstr("steps"));
}

TEST(JinjaRenderingTest, LongTextTakesMoreSteps) {
  Rendering rendering;
  EXPECT_TRUE(rendering.Charge(limits::kTemplateStepsMax - 3));
  EXPECT_TRUE(rendering.ChargeText(63));
  EXPECT_TRUE(rendering.ChargeText(64));
  EXPECT_FALSE(rendering.ChargeText(0));
}

}  // namespace
}  // namespace numoe::text::jinja
