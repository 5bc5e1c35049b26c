#include "coordinator/net/client/sse_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "coordinator/net/client/client_limits.h"

namespace numoe::net {
namespace {

using ::testing::ElementsAre;

// Type and data of each event, "type|data", if the text is read in pieces of `cut(i)` bytes.
std::vector<std::string> ReadEvents(std::string_view bytes, const std::function<size_t()>& cut) {
  std::vector<std::string> events;
  SseReader reader([&](const SseEvent& event) { events.push_back(event.type + "|" + event.data); });
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), cut());
    const absl::Status status = reader.Push(bytes.substr(0, size));
    EXPECT_TRUE(status.ok()) << status;
    bytes.remove_prefix(size);
  }
  return events;
}
std::vector<std::string> ReadEvents(std::string_view bytes) {
  return ReadEvents(bytes, [] { return size_t{1} << 20; });
}

TEST(SseReader, ExamplesOfTheStandard) {
  EXPECT_THAT(ReadEvents("data: one\n\ndata: two\n\n"), ElementsAre("message|one", "message|two"));
  EXPECT_THAT(ReadEvents("data: a\ndata: b\ndata:\ndata\n\n"), ElementsAre("message|a\nb\n\n"));
  EXPECT_THAT(ReadEvents("data:none\ndata:  two\n\n"), ElementsAre("message|none\n two"));
  EXPECT_THAT(ReadEvents(": a comment\nevent: add\nid: 7\nretry: 9\nunknown: x\ndata: y\n\n"),
              ElementsAre("add|y"));
  EXPECT_THAT(ReadEvents("event: lost\n\ndata: x\n\n"), ElementsAre("message|x")) << "an event needs data";
  EXPECT_THAT(ReadEvents("data\n\n"), ElementsAre("message|"));
  EXPECT_THAT(ReadEvents("\xef\xbb\xbf"
                         "data: x\n\n"),
              ElementsAre("message|x"));
  EXPECT_THAT(ReadEvents("data: x\n\n\n\n"), ElementsAre("message|x"));
}

TEST(SseReader, AllLineEnds) {
  EXPECT_THAT(ReadEvents("data: a\r\rdata: b\r\n\r\ndata: c\n\r\n"),
              ElementsAre("message|a", "message|b", "message|c"));
  EXPECT_THAT(ReadEvents("data: a\r\ndata: b\r\n\r\n"), ElementsAre("message|a\nb")) << "CR LF ends one line";
}

TEST(SseReader, AnIncompleteEventAtTheEndIsDropped) {
  EXPECT_THAT(ReadEvents("data: a\n\ndata: b\n"), ElementsAre("message|a"));
  EXPECT_THAT(ReadEvents("data: a"), ElementsAre());
}

TEST(SseReader, PiecesOfAnySizeGiveTheSameEvents) {
  const std::string alphabet[] = {"data: ", "data", ":", "event: e", "\n",           "\r",
                                  "\r\n",   "\n\n", "x", " ",        "\xef\xbb\xbf", "{\"a\"}"};
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += alphabet[random() % std::size(alphabet)];
    const auto whole = ReadEvents(bytes);
    EXPECT_EQ(ReadEvents(bytes, [] { return size_t{1}; }), whole) << bytes;
    EXPECT_EQ(ReadEvents(bytes, [&] { return size_t{1} + random() % 9; }), whole) << bytes;
  }
}

TEST(SseReader, EndlessLinesAndEventsAreRefused) {
  const std::string piece(1 << 20, 'x');
  for (const bool one_line : {true, false}) {
    int events = 0;
    SseReader reader([&](const SseEvent&) { ++events; });
    absl::Status status = reader.Push("data: ");
    size_t pushed = 0;
    while (status.ok() && pushed < 2 * limits::kSseEventBytesMax) {
      status = reader.Push(one_line ? piece : piece + "\ndata: ");
      pushed += piece.size();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_LE(pushed, limits::kSseEventBytesMax + piece.size());
    EXPECT_FALSE(reader.Push("\n\n").ok());
    EXPECT_EQ(events, 0);
  }
}

}  // namespace
}  // namespace numoe::net
