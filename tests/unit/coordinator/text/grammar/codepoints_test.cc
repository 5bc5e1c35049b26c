// Sets of characters, and the byte sequences that match exactly their UTF-8.
#include "coordinator/text/grammar/codepoints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

TEST(CodepointSetTest, RangesAreSortedJoinedAndWithoutSurrogates) {
  EXPECT_EQ(CodepointSet({{5, 9}, {1, 2}, {3, 4}, {8, 20}}).ranges(), (std::vector<CodepointRange>{{1, 20}}));
  EXPECT_EQ(CodepointSet({{0xD000, 0xE010}}).ranges(),
            (std::vector<CodepointRange>{{0xD000, 0xD7FF}, {0xE000, 0xE010}}));
  EXPECT_TRUE(CodepointSet({{0xD800, 0xDFFF}}).empty());
  EXPECT_TRUE(CodepointSet({{9, 5}}).empty());
}

TEST(CodepointSetTest, Algebra) {
  const CodepointSet a = {{10, 20}, {30, 40}}, b = {{15, 35}};
  EXPECT_EQ(a.And(b).ranges(), (std::vector<CodepointRange>{{15, 20}, {30, 35}}));
  EXPECT_EQ(a.Or(b).ranges(), (std::vector<CodepointRange>{{10, 40}}));
  EXPECT_EQ(a.Minus(b).ranges(), (std::vector<CodepointRange>{{10, 14}, {36, 40}}));
  EXPECT_EQ(a.Complement().Complement().ranges(), a.ranges());
  EXPECT_TRUE(CodepointSet::All().Complement().empty());
  EXPECT_EQ(CodepointSet().Complement().ranges(), CodepointSet::All().ranges());
}

TEST(CodepointSetTest, Membership) {
  const CodepointSet set = {{'a', 'c'}, {'x', 'x'}};
  for (const char in : {'a', 'b', 'c', 'x'}) EXPECT_TRUE(set.Contains(static_cast<uint32_t>(in))) << in;
  for (const char out : {'`', 'd', 'w', 'y'}) EXPECT_FALSE(set.Contains(static_cast<uint32_t>(out))) << out;
}

TEST(Utf8Test, EncodesAndDecodesAtTheEdgesOfEachLength) {
  for (const auto& [codepoint, bytes] :
       std::vector<std::pair<uint32_t, std::string>>{{0, std::string(1, '\0')},
                                                     {0x7F, "\x7F"},
                                                     {0x80, "\xC2\x80"},
                                                     {0x7FF, "\xDF\xBF"},
                                                     {0x800, "\xE0\xA0\x80"},
                                                     {0xFFFF, "\xEF\xBF\xBF"},
                                                     {0x10000, "\xF0\x90\x80\x80"},
                                                     {kCodepointMax, "\xF4\x8F\xBF\xBF"}}) {
    EXPECT_EQ(EncodeUtf8(codepoint), bytes) << codepoint;
    const std::string text = "a" + bytes + "b";
    size_t at = 1;
    EXPECT_EQ(DecodeUtf8(text, at), codepoint);
    EXPECT_EQ(at, 1 + bytes.size());
  }
}

// Returns whether the sequences of `set` match the UTF-8 of a character.
bool SequencesMatch(const CodepointSet& set, uint32_t codepoint) {
  const std::string bytes = EncodeUtf8(codepoint);
  int matches = 0;
  ForEachUtf8Sequence(set, [&](const std::vector<ByteRange>& sequence) {
    bool all = sequence.size() == bytes.size();
    for (size_t i = 0; all && i < bytes.size(); ++i)
      all = sequence[i].low <= static_cast<uint8_t>(bytes[i]) &&
            static_cast<uint8_t>(bytes[i]) <= sequence[i].high;
    matches += all;
  });
  EXPECT_LE(matches, 1) << "sequences overlap at " << codepoint;
  return matches == 1;
}

TEST(Utf8Test, SequencesMatchExactlyTheMembers) {
  for (const CodepointSet& set :
       {CodepointSet{{'b', 'y'}}, CodepointSet{{0x70, 0x90}}, CodepointSet{{0x7F0, 0x1005}},
        CodepointSet{{0xFFF0, 0x10450}}, CodepointSet{{0xABCD, 0xABCD}}, CodepointSet{{0x3FFFF, 0x40001}},
        CodepointSet::All()}) {
    for (const CodepointRange& range : set.ranges()) {
      for (const uint32_t edge : {range.low, range.high}) {
        for (uint32_t c = edge < 70 ? 0 : edge - 70; c <= std::min(edge + 70, kCodepointMax); ++c) {
          if (c >= 0xD800 && c <= 0xDFFF) continue;
          EXPECT_EQ(SequencesMatch(set, c), set.Contains(c)) << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace numoe::text::grammar
