// The traceparent header: the standard's example, and headers that are almost valid.
#include "coordinator/serving/tracing/trace_context.h"

#include <set>

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpan = "00f067aa0ba902b7";

std::string Header(const std::string& version, const std::string& flags, const std::string& rest = "") {
  return version + "-" + kTrace + "-" + kSpan + "-" + flags + rest;
}

TEST(TraceContextTest, TheStandardsExample) {
  const auto context = ParseTraceparent(Header("00", "01"));
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(context->parent_id, kSpan);
  EXPECT_TRUE(context->sampled);
}

TEST(TraceContextTest, TheLowestFlagCounts) {
  for (const auto& [flags, sampled] : std::vector<std::pair<std::string, bool>>{
           {"00", false}, {"01", true}, {"02", false}, {"03", true}, {"ff", true}, {"0e", false}}) {
    const auto context = ParseTraceparent(Header("00", flags));
    ASSERT_TRUE(context.has_value()) << flags;
    EXPECT_EQ(context->sampled, sampled) << flags;
  }
}

TEST(TraceContextTest, LaterVersionsMayHaveMoreFields) {
  EXPECT_TRUE(ParseTraceparent(Header("cc", "01")).has_value());
  EXPECT_TRUE(ParseTraceparent(Header("cc", "01", "-what-the-future-brings")).has_value());
  EXPECT_FALSE(ParseTraceparent(Header("cc", "01", ".what")).has_value());
  EXPECT_FALSE(ParseTraceparent(Header("00", "01", "-more")).has_value());
}

TEST(TraceContextTest, MalformedHeadersAreIgnored) {
  for (std::string wrong :
       {std::string(), std::string("00"), Header("ff", "01"), Header("0x", "01"), Header("00", "0g"),
        Header("00", "0"), Header("00", "01") + " ", "00-" + std::string(32, '0') + "-" + kSpan + "-01",
        std::string("00-") + kTrace + "-" + std::string(16, '0') + "-01"})
    EXPECT_FALSE(ParseTraceparent(wrong).has_value()) << wrong;
  std::string upper = Header("00", "01");
  upper[4] = 'B';
  EXPECT_FALSE(ParseTraceparent(upper).has_value());
  for (const size_t dash : {2u, 35u, 52u}) {
    std::string wrong = Header("00", "01");
    wrong[dash] = '_';
    EXPECT_FALSE(ParseTraceparent(wrong).has_value()) << wrong;
  }
}

TEST(TraceContextTest, NewTracesHaveTheAskedShareAndDifferentIds) {
  std::set<std::string> ids;
  int sampled = 0;
  for (int i = 0; i < 4'000; ++i) {
    const TraceContext context = NewTraceContext(0.25);
    ids.insert(context.trace_id);
    sampled += context.sampled ? 1 : 0;
    EXPECT_TRUE(ParseTraceparent("00-" + context.trace_id + "-" + NewSpanId() + "-01").has_value());
  }
  EXPECT_EQ(ids.size(), 4'000u);
  EXPECT_GT(sampled, 800);  // 1000 expected; 200 are seven standard deviations
  EXPECT_LT(sampled, 1'200);
  EXPECT_FALSE(NewTraceContext(0).sampled);
  EXPECT_TRUE(NewTraceContext(1).sampled);
}

}  // namespace
}  // namespace numoe::serving
