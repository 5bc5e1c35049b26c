#include "coordinator/clients/terminal/answer_view.h"

#include <gtest/gtest.h>

namespace numoe::clients {
namespace {

constexpr ViewStyle kPipe, kPlain{.person = true}, kColour{.person = true, .colour = true};

std::string Shown(ViewStyle style, const std::vector<net::AnswerChunk>& chunks) {
  AnswerView view(style);
  std::string text;
  for (const net::AnswerChunk& chunk : chunks) text += view.Show(chunk);
  return text + view.Finish();
}

const std::vector<net::AnswerChunk> kThoughtful = {
    {.reasoning = "\nlet "}, {.reasoning = "me see\n"}, {.content = "\n\n4"}, {.content = "2."}};

TEST(AnswerView, APipeGetsTheContentAlone) {
  EXPECT_EQ(Shown(kPipe, kThoughtful), "\n\n42.\n");
  EXPECT_EQ(Shown(kPipe, {{.content = "whole line\n"}}), "whole line\n") << "ended once";
  EXPECT_EQ(Shown(kPipe, {}), "");
  EXPECT_EQ(Shown(kPipe, {{.content = "\x1b[1m"}}), "\x1b[1m\n") << "data, not a terminal";
}

TEST(AnswerView, ThinkingIsDim) {
  EXPECT_EQ(Shown(kColour, kThoughtful), "\x1b[2mlet me see\n\x1b[0m\n42.\n");
  EXPECT_EQ(Shown(kPlain, kThoughtful), "(thinking) let me see\n\n42.\n");
}

TEST(AnswerView, StoppedWhileThinkingResetsTheColour) {
  EXPECT_EQ(Shown(kColour, {{.reasoning = "hm"}}), "\x1b[2mhm\x1b[0m\n");
}

TEST(AnswerView, CallsComeOneByOne) {
  const std::vector<net::AnswerChunk> calls = {
      {.content = "Let me look."},
      {.calls = {{.index = 0, .id = "a", .name = "weather"}}},
      {.calls = {{.index = 0, .arguments = "{\"city\":"}}},
      {.calls = {{.index = 0, .arguments = "\"Rome\"}"}}},
      {.calls = {{.index = 1, .id = "b", .name = "time", .arguments = "{}"}}}};
  EXPECT_EQ(Shown(kPipe, calls), "Let me look.\nweather {\"city\":\"Rome\"}\ntime {}\n");
  EXPECT_EQ(Shown(kPlain, calls), "Let me look.\n\ncalls weather {\"city\":\"Rome\"}\ncalls time {}\n");
  EXPECT_EQ(Shown(kColour, calls),
            "Let me look.\n\n\x1b[36mcalls weather {\"city\":\"Rome\"}\ncalls time {}\x1b[0m\n");
}

TEST(AnswerView, AModelCannotControlTheTerminal) {
  const std::string wild =
      "a\x1b]0;title\x07"
      "b\r\x7f\x9b"
      "c\xc2\x9b"
      "2J\td\n\xc3\xa9";
  EXPECT_EQ(Shown(kPlain, {{.content = wild}}),
            "a]0;titleb\x9b"
            "c2J\td\n\xc3\xa9\n");
  EXPECT_EQ(WithoutControls("\xc2\xa0\xe4\xbd\xa0\xf0\x9f\x98\x80"), "\xc2\xa0\xe4\xbd\xa0\xf0\x9f\x98\x80");
  EXPECT_EQ(Shown(kPlain, {{.calls = {{.index = 0, .name = "f\x1b[2J"}}}}), "calls f[2J \n");
}

}  // namespace
}  // namespace numoe::clients
