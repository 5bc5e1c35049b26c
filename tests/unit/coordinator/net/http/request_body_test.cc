// Bodies of requests in pieces of any size: what belongs to them is read, and ambiguous bytes are refused.
#include "coordinator/net/http/request_body.h"

#include "common/base/limits.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using State = RequestBody::State;

struct TakenBody {
  State state;
  std::string text;
  size_t used;
};

TakenBody TakeAll(const std::string& bytes, AnnouncedBody announced = {.chunked = true}, size_t piece = 1000,
                  size_t bytes_max = 100) {
  RequestBody body(announced, bytes_max);
  size_t used = 0;
  while (used < bytes.size() && body.state() == State::kMore) used += body.Take(bytes.substr(used, piece));
  return {body.state(), body.text(), used};
}

TEST(RequestBodyTest, AKnownLengthIsReadExactly) {
  for (const size_t piece : {1, 2, 100}) {
    const TakenBody taken = TakeAll("hello, next", {.bytes = 5}, piece);
    EXPECT_EQ(taken.state, State::kWhole);
    EXPECT_EQ(taken.text, "hello");
    EXPECT_EQ(taken.used, 5u);
  }
  EXPECT_EQ(TakeAll("hel", {.bytes = 5}).state, State::kMore);
  EXPECT_EQ(RequestBody(AnnouncedBody{}, 0).state(), State::kWhole);
}

TEST(RequestBodyTest, ChunksAreJoined) {
  const std::string chunks =
      "2\r\nhe\r\n0003;a=\"b\" ; c\r\nllo\r\n1 \t;x\r\n\n\r\n0;last\r\nTrailer: v\r\nX:\r\n\r\n";
  for (size_t piece = 1; piece <= chunks.size(); ++piece) {
    const TakenBody taken = TakeAll(chunks + "GET /", {.chunked = true}, piece);
    EXPECT_EQ(taken.state, State::kWhole) << piece;
    EXPECT_EQ(taken.text, "hello\n");
    EXPECT_EQ(taken.used, chunks.size());
  }
}

TEST(RequestBodyTest, AmbiguousBodiesAreRefused) {
  for (const char* chunks : {"x\r\n",
                             "\r\n",
                             "0x1\r\na\r\n",
                             "+1\r\na\r\n",
                             "-1\r\na\r\n",
                             " 1\r\na\r\n",
                             "1 \r\na\r\n",
                             "1\na\r\n",
                             "1;a\nb\r\nx\r\n",
                             "1;a\rb\r\nx\r\n",
                             "1;\x01\r\nx\r\n",
                             "1\r\nxy\r\n",
                             "1\r\nx\n",
                             "1\r\nx0\r\n\r\n",
                             "10000000000000000\r\n",
                             "00000000000000001\r\n",
                             "0\r\n\n",
                             "0\r\nA : b\r\n",
                             "0\r\n a: b\r\n",
                             "0\r\nGET / HTTP/1.1\r\n",
                             "0\r\nA: b\nC: d\r\n"})
    EXPECT_EQ(TakeAll(chunks).state, State::kMalformed) << chunks;
}

TEST(RequestBodyTest, BodiesAndTheirChunkLinesAreLimited) {
  EXPECT_EQ(TakeAll("64\r\n" + std::string(100, 'a') + "\r\n0\r\n\r\n").state, State::kWhole);
  EXPECT_EQ(TakeAll("65\r\n").state, State::kTooLarge) << "before the chunk arrives";
  EXPECT_EQ(TakeAll("ffffffffffffffff\r\n").state, State::kTooLarge);
  const std::string much(limits::kHttpHeaderBytesMax + 1, 'a');
  EXPECT_EQ(TakeAll("1;" + much).state, State::kTooLarge);
  EXPECT_EQ(TakeAll("0\r\nA: " + much).state, State::kTooLarge);
  std::string extended;  // each extension is short
  for (int i = 0; i < 100; ++i) extended += "1;" + much.substr(0, 1000) + "\r\nx\r\n";
  EXPECT_EQ(TakeAll(extended).state, State::kTooLarge);
}

}  // namespace
}  // namespace numoe::net
