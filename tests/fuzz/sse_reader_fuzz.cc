// A server's stream: any bytes result in the same events, however they are divided, and each event is a chunk
// or an error.
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "coordinator/net/client/answer_chunk.h"
#include "coordinator/net/client/sse_reader.h"

namespace {

std::vector<std::string> Events(std::string_view bytes, size_t piece) {
  std::vector<std::string> events;
  numoe::net::SseReader reader(
      [&](const numoe::net::SseEvent& event) { events.push_back(event.type + "\n" + event.data); });
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    NUMOE_CHECK(reader.Push(bytes.substr(0, piece)).ok());
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = Events(bytes, size);
  NUMOE_CHECK(Events(bytes, 1) == whole);
  NUMOE_CHECK(Events(bytes, 1 + size % 7) == whole);
  for (const std::string& event : whole) {
    const auto chunk = numoe::net::ReadAnswerChunk(event.substr(event.find('\n') + 1));
    if (!chunk.ok()) NUMOE_CHECK(!chunk.status().message().empty());
    if (chunk.ok() && chunk->usage) NUMOE_CHECK_GE(chunk->usage->completion_tokens, 0);
  }
  NUMOE_CHECK(!numoe::net::HttpError(500, bytes).ok());
  return 0;
}
