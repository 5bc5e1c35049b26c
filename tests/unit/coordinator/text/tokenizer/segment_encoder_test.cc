// Control tokens are recognised in trusted text, and nowhere else.
#include "coordinator/text/tokenizer/segment_encoder.h"

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

// Returns the text in quotes and control tokens by their ids.
std::string CutUp(std::vector<TextSegment> segments) {
  SpecialTokens specials;
  specials.Add("<a>", {7, true});
  specials.Add("<ab>", {8, true});
  std::string out;
  CutSpecials(
      segments, specials, [&](std::string_view text) { out += "'" + std::string(text) + "'"; },
      [&](TokenId id) { out += "[" + std::to_string(id) + "]"; });
  return out;
}

TEST(SegmentEncoderTest, TrustedTextHasControlTokens) {
  EXPECT_EQ(CutUp({{"x<a><ab>y", true}}), "'x'[7][8]'y'");
  EXPECT_EQ(CutUp({{"<a>", true}}), "[7]");
  EXPECT_EQ(CutUp({}), "");
  EXPECT_EQ(CutUp({{"", true}, {"", false}}), "");
}

TEST(SegmentEncoderTest, UntrustedTextHasNone) {
  EXPECT_EQ(CutUp({{"<a>", false}}), "'<a>'");
  EXPECT_EQ(CutUp({{"x", true}, {"<a>", false}, {"<a>y", true}}), "'x<a>'[7]'y'")
      << "text continues over the border";
}

TEST(SegmentEncoderTest, NamesMayExtendOverTrustedSegmentsOnly) {
  EXPECT_EQ(CutUp({{"<", true}, {"a", true}, {">", true}}), "[7]");
  EXPECT_EQ(CutUp({{"<a", true}, {">", false}}), "'<a>'");
  EXPECT_EQ(CutUp({{"<", false}, {"a>", true}}), "'<a>'");
  EXPECT_EQ(CutUp({{"<a", true}, {"", false}, {">", true}}), "[7]") << "nothing is between them";
}

TEST(SegmentEncoderTest, InvalidBytesAreReplacedFirst) {
  EXPECT_EQ(CutUp({{"\xff", false}, {"<a>", true}}), "'\uFFFD'[7]");
  EXPECT_EQ(CutUp({{"\xe4\xbd", false}, {"\xa0", false}}), "'\uFFFD\uFFFD'")
      << "a character does not extend over segments";
}

}  // namespace
}  // namespace numoe::text
