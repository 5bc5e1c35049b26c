// Stop strings: however the text is divided into pieces, the text before the first stop string is released,
// and no possible part of one before it is certain.
#include "coordinator/serving/api/stop_matcher.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

// The text before the stop string that is complete first; if several end there, before the longest.
std::string Expected(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t begin = std::string::npos;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        begin = std::min(begin, end - stop.size());
    }
    if (begin != std::string::npos) return text.substr(0, begin);
  }
  return text;
}

std::string PushAll(StopMatcher& matcher, const std::string& text, const std::vector<size_t>& cuts) {
  std::string out;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    out += matcher.Push(std::string_view(text).substr(begin, cut - begin));
    begin = cut;
  }
  out += matcher.Push(std::string_view(text).substr(begin));
  return out + matcher.Flush();
}

TEST(StopMatcherTest, OnlyAPossibleStopIsHeldBack) {
  StopMatcher matcher({"END", "\n\n"});
  EXPECT_EQ(matcher.Push("abE"), "ab");
  EXPECT_EQ(matcher.Push("N"), "");
  EXPECT_EQ(matcher.Push("x"), "ENx");
  EXPECT_EQ(matcher.Push("\n"), "");
  EXPECT_EQ(matcher.Flush(), "\n");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcherTest, PatternsAreFoundAndHeldBackLikeStrings) {
  const std::vector<text::StopPattern> patterns = {*text::StopPattern::Compile("[0-9]+;"),
                                                   *text::StopPattern::Compile("é.x")};
  for (const auto& [text, out, stop] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"a 12 b 34;c", "a 12 b ", "[0-9]+;"},
                                                                      {"12é7xEND", "12", "é.x"},
                                                                      {"1END2;", "1", "END"},
                                                                      {"12é", "12é", ""}}) {
    for (size_t length = 1; length <= text.size(); ++length) {
      StopMatcher matcher({"END"}, false, patterns);
      std::vector<size_t> cuts;
      for (size_t at = length; at < text.size(); at += length) cuts.push_back(at);
      EXPECT_EQ(PushAll(matcher, text, cuts), out) << length;
      EXPECT_EQ(matcher.stopped(), !stop.empty());
      if (matcher.stopped()) {
        EXPECT_EQ(matcher.stop(), stop);
      }
    }
  }
  StopMatcher matcher({}, true, patterns);
  EXPECT_EQ(matcher.Push("a1"), "a");
  EXPECT_EQ(matcher.Push("2"), "");
  EXPECT_EQ(matcher.Push("b3"), "12b");
  EXPECT_EQ(matcher.Flush(), "3");
  EXPECT_EQ(matcher.Push(";4"), ";") << "text that was flushed is not part of a match";
  EXPECT_EQ(matcher.Push(";x"), "4;") << "include_stop releases the stop itself";
}

TEST(StopMatcherTest, NothingFollowsAStop) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("aEN"), "a");
  EXPECT_EQ(matcher.Push("Dzz"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, OverlappingStopsTheOneCompleteFirstCounts) {
  for (const auto& [text, stops] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"xabcy", {"bc", "abcd"}}, {"aab", {"ab"}}, {"ababc", {"abc", "bab"}}, {"äöü", {"\xb6"}}}) {
    StopMatcher whole(stops), bytes(stops);
    std::vector<size_t> cuts;
    for (size_t i = 1; i < text.size(); ++i) cuts.push_back(i);
    EXPECT_EQ(PushAll(whole, text, {}), Expected(text, stops)) << text;
    EXPECT_EQ(PushAll(bytes, text, cuts), Expected(text, stops)) << text;
  }
}

TEST(StopMatcherTest, AnyTextInAnyPieces) {
  std::mt19937 random(2);
  int stopped = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto word = [&](size_t longest) {
      std::string text(1 + random() % longest, ' ');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      return text;
    };
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random() % 3; ++i) stops.push_back(word(4));
    const std::string text = word(24);
    std::vector<size_t> cuts;
    for (size_t i = 1; i < text.size(); ++i) {
      if (random() % 2 == 0) cuts.push_back(i);
    }
    StopMatcher matcher(stops);
    ASSERT_EQ(PushAll(matcher, text, cuts), Expected(text, stops)) << text << " stop " << stops[0];
    EXPECT_EQ(matcher.stopped(), Expected(text, stops) != text);
    stopped += matcher.stopped() ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
}

}  // namespace
}  // namespace numoe::serving
