// Headers and manifests of packed weights: any bytes are accepted or refused with an error of one line; an
// accepted header is the same after it is written and read again.
#include <cstring>
#include <string>

#include "common/base/check.h"
#include "expert_worker/experts/packed_shard.h"
#include "expert_worker/experts/packed_slice.h"

namespace numoe {
namespace {

void CheckMessage(const absl::Status& status) {
  const std::string message(status.message());
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
}

void CheckHeader(absl::Span<const std::byte> head, uint64_t file_bytes) {
  const absl::StatusOr<worker::ShardHeader> header = worker::ParseShardHeader(head, file_bytes, "f.numoe");
  if (!header.ok()) return CheckMessage(header.status());
  NUMOE_CHECK_EQ(header->data_bytes + worker::kShardDataOffset, file_bytes);
  const std::string again = worker::SerialiseShardHeader(*header);
  const auto parsed = worker::ParseShardHeader(
      {reinterpret_cast<const std::byte*>(again.data()), again.size()}, file_bytes, "f.numoe");
  NUMOE_CHECK(parsed.ok()) << parsed.status();
  NUMOE_CHECK(worker::MatchShard(*parsed, *header, "f.numoe").ok());
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace numoe;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  CheckHeader(bytes, size);
  const absl::StatusOr<worker::PackedModel> manifest = worker::ParseManifest(text, "numoe-pack.json");
  if (manifest.ok()) {
    NUMOE_CHECK(worker::SerialiseManifest(*worker::ParseManifest(
                    worker::SerialiseManifest(*manifest), "again")) == worker::SerialiseManifest(*manifest));
  } else {
    CheckMessage(manifest.status());
  }
  // Tests the input again with the correct length and checksum for its text. Most edits make these wrong, so
  // that the code after those checks would not be reached.
  if (size <= worker::kShardPrefixBytes) return 0;
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  const absl::Span<const std::byte> body = absl::MakeConstSpan(repaired).subspan(worker::kShardPrefixBytes);
  const auto length = static_cast<uint32_t>(body.size());
  const uint64_t checksum = worker::BlockChecksum(body);
  std::memcpy(repaired.data(), "NUMOEPK1", 8);
  std::memcpy(repaired.data() + 8, &length, sizeof length);
  std::memset(repaired.data() + 12, 0, 4);
  std::memcpy(repaired.data() + 16, &checksum, sizeof checksum);
  CheckHeader(repaired, worker::kShardDataOffset + 33554496);
  return 0;
}
