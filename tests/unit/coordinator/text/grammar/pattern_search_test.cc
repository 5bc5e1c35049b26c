// The search finds the first match in the same place as a trial of every part of the text, and text that may
// belong to a match is not released before.
#include "coordinator/text/grammar/pattern_search.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

std::string PatternError(const std::string& source) {
  const auto pattern = StopPattern::Compile(source);
  EXPECT_FALSE(pattern.ok()) << source;
  return std::string(pattern.status().message());
}

TEST(PatternSearchTest, FindsTheMatchThatEndsFirstAndAmongThoseTheOneThatBeginsFirst) {
  std::mt19937_64 random(1);
  for (const char* source : {"ab+", "a(b|ca)c", "[ab]{3}", "b[^a]*a", "(ab|b)(a|bc)", "a.c", "abab|ba"}) {
    const StopPattern pattern = *StopPattern::Compile(source);
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (int c = 0; c < 12; ++c) text += static_cast<char>('a' + random() % 3);
      size_t begin = std::string::npos, end = 0;
      for (size_t to = 1; to <= text.size() && end == 0; ++to) {
        for (size_t from = 0; from < to; ++from) {
          if (!grammar::Matches(*pattern.machine, text.substr(from, to - from))) continue;
          begin = from;
          end = to;
          break;
        }
      }
      PatternSearch search(pattern);
      std::optional<int64_t> found;
      size_t read = 0;
      int64_t open = 0;
      for (; read < text.size() && !found; ++read) {
        found = search.Read(static_cast<uint8_t>(text[read]));
        EXPECT_LE(open, search.open_from()) << "text that was released does not become open again";
        open = search.open_from();
      }
      ASSERT_EQ(found.has_value(), end > 0) << source << " in " << text;
      if (!found) continue;
      EXPECT_EQ(static_cast<size_t>(*found), begin) << source << " in " << text;
      EXPECT_EQ(read, end) << source << " in " << text;
    }
  }
}

TEST(PatternSearchTest, NothingIsHeldBackIfNoMatchHasBegun) {
  PatternSearch search(*StopPattern::Compile("END[0-9]"));
  for (const char c : std::string("xyz")) EXPECT_FALSE(search.Read(static_cast<uint8_t>(c)).has_value());
  EXPECT_EQ(search.open_from(), 3);
  search.Read('E');
  search.Read('N');
  EXPECT_EQ(search.open_from(), 3);
  search.Read('x');
  EXPECT_EQ(search.open_from(), 6);
  search.Restart();
  EXPECT_EQ(search.open_from(), 0);
}

TEST(PatternSearchTest, TimeIsLinearInTheText) {
  PatternSearch search(*StopPattern::Compile("(a|aa)+(a|aa)+(a|aa)+b"));
  for (int i = 0; i < 100'000; ++i) ASSERT_FALSE(search.Read('a').has_value());
  EXPECT_EQ(search.Read('b'), 0);
}

TEST(PatternSearchTest, UnsupportedPatternsAreRefused) {
  EXPECT_THAT(PatternError("^a"), HasSubstr("an anchor"));
  EXPECT_THAT(PatternError("(a|b$)"), HasSubstr("an anchor"));
  EXPECT_THAT(PatternError("a*"), HasSubstr("matches the empty text"));
  EXPECT_THAT(PatternError("a("), HasSubstr("at byte"));
  EXPECT_THAT(PatternError("(?=a)b"), HasSubstr("look-ahead"));
  EXPECT_THAT(PatternError("[ab]*a[ab]{12}"), HasSubstr("too large"));
  EXPECT_THAT(PatternError(std::string(5000, 'a')), HasSubstr("at most 4096"));
}

}  // namespace
}  // namespace numoe::text
