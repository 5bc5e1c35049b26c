// Text that comes in pieces is trimmed like the whole text.
#include "coordinator/text/parsing/trimmer.h"

#include <random>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

TEST(TrimmerTest, PiecesAddUpToTheTrimmedText) {
  std::mt19937 random(1);
  for (int run = 0; run < 2000; ++run) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += "ab \n\t"[random() % 5];
    Trimmer trimmer;
    trimmer.Restart(/*keep_leading=*/false);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 3;
      out += trimmer.Push(std::string_view(text).substr(at, length), /*hold_end=*/true);
      at += length;
    }
    EXPECT_EQ(out, Trimmed(text)) << "'" << text << "'";
    const size_t first = text.find_first_not_of(kWhiteSpace);
    EXPECT_EQ(out + trimmer.Flush(), first == std::string::npos ? "" : text.substr(first));
  }
}

TEST(TrimmerTest, LeadingWhiteSpaceIsKeptOnRequest) {
  Trimmer trimmer;
  trimmer.Restart(/*keep_leading=*/true);
  EXPECT_EQ(trimmer.Push(" \n", true), "");
  EXPECT_EQ(trimmer.Push(" a ", true), " \n a");
  EXPECT_EQ(trimmer.Push("b ", false), " b ");
  trimmer.Restart(true);
  EXPECT_EQ(trimmer.Push("\n", false), "") << "nothing but white space so far";
  EXPECT_FALSE(trimmer.begun());
  EXPECT_EQ(trimmer.Flush(), "\n");
}

TEST(TrimmerTest, OtherCharactersCanBeTrimmedAtTheEnd) {
  Trimmer trimmer(" \n`");
  trimmer.Restart(false);
  EXPECT_EQ(trimmer.Push("`x`\n``", true), "`x");
  EXPECT_EQ(trimmer.Push("y`", true), "`\n``y");
}

}  // namespace
}  // namespace numoe::text
