// The search for control tokens in a text finds the leftmost, and the longest at one place.
#include "coordinator/text/tokenizer/special_tokens.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

TEST(SpecialTokensTest, LeftmostThenLongest) {
  SpecialTokens specials;
  specials.Add("<a", {1, true});
  specials.Add("<ab>", {2, false});
  specials.Add("b>c", {3, true});
  EXPECT_EQ(specials.Find("x<ab>c", 0)->id, 2);
  EXPECT_EQ(specials.Find("x<ab>c", 2)->id, 3) << "at or after a place";
  EXPECT_EQ(specials.Find("x<ab", 0)->id, 1);
  EXPECT_EQ(specials.Find("x<", 0), std::nullopt);
  EXPECT_TRUE(specials.IsSpecial(1));
  EXPECT_FALSE(specials.IsSpecial(2));
  EXPECT_FALSE(specials.IsSpecial(99));
}

TEST(SpecialTokensTest, ANameAddedTwiceHasItsLastId) {
  SpecialTokens specials;
  specials.Add("<a>", {1, true});
  specials.Add("<a>", {2, true});
  EXPECT_EQ(specials.Find("<a>", 0)->id, 2);
}

TEST(SpecialTokensTest, RandomNamesAreFoundAsDefined) {
  std::mt19937 random(1);
  const auto text = [&](size_t most) {
    std::string out;
    for (size_t n = 1 + random() % most; n > 0; --n) out += "<a\xff"[random() % 3];
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    SpecialTokens specials;
    std::vector<std::string> names;
    for (size_t n = random() % 8; n > 0; --n) {
      names.push_back(text(5));
      specials.Add(names.back(), {static_cast<TokenId>(names.size()), true});
    }
    const std::string subject = text(12);
    const size_t from = random() % subject.size();
    size_t begin = subject.size(), length = 0;
    for (size_t at = from; at < subject.size() && length == 0; ++at) {
      for (const std::string& name : names) {
        if (subject.compare(at, name.size(), name) == 0) length = std::max(length, name.size());
      }
      begin = at;
    }
    const auto found = specials.Find(subject, from);
    ASSERT_EQ(found.has_value(), length > 0) << subject;
    if (!found) continue;
    ASSERT_EQ(found->begin, begin);
    ASSERT_EQ(found->length, length);
  }
}

}  // namespace
}  // namespace numoe::text
