// Headers of packed shards: what is written is read back, and errors name what is wrong; and the bytes of
// layout version 1.
#include "expert_worker/experts/packed_shard.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "common/formats/bf16.h"
#include "common/topology/node_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

ShardHeader Example() {
  return {.formats = {WeightFormat::kInt4, WeightFormat::kInt4},
          .slice = {.mode = SliceMode::kExpert, .worker_index = 3, .worker_count = 7},
          .layer = 60,
          .hidden_size = 7168,
          .width = 2048,
          .num_experts = 384,
          .model_fingerprint = 0xfedcba9876543210,
          .data_bytes = 2 * kShardBlockBytes + 64,
          .checksums = {1, 0xffffffffffffffff, 0x0123456789abcdef}};
}

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
absl::StatusOr<ShardHeader> Parse(const std::string& head, uint64_t file_bytes) {
  return ParseShardHeader(BytesOf(head), file_bytes, "f.numoe");
}
constexpr uint64_t kExampleFileBytes = kShardDataOffset + 2 * kShardBlockBytes + 64;

// Returns the error for the example with its text changed; prefix and checksum are updated.
std::string ErrorOf(const std::function<void(nlohmann::json&)>& change) {
  const std::string head = SerialiseShardHeader(Example());
  nlohmann::json text = nlohmann::json::parse(head.substr(kShardPrefixBytes));
  change(text);
  const std::string body = text.dump();
  std::string changed = head.substr(0, 8);
  const auto length = static_cast<uint32_t>(body.size());
  const uint64_t checksum = BlockChecksum(BytesOf(body));
  changed.append(reinterpret_cast<const char*>(&length), 4).append(4, '\0');
  changed.append(reinterpret_cast<const char*>(&checksum), 8).append(body);
  return std::string(Parse(changed, kExampleFileBytes).status().message());
}

TEST(PackedShardTest, AHeaderIsReadAsItWasWritten) {
  const absl::StatusOr<ShardHeader> header = Parse(SerialiseShardHeader(Example()), kExampleFileBytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(SerialiseShardHeader(*header), SerialiseShardHeader(Example()));
  EXPECT_EQ(header->checksums, Example().checksums);
  EXPECT_EQ(ShardName(header->slice, header->layer), "experts-of-7-part-3-layer-060.numoe");
}

TEST(PackedShardTest, DamageIsNamed) {
  const std::string head = SerialiseShardHeader(Example());
  const auto error = [](const std::string& bytes, uint64_t size = kExampleFileBytes) {
    return std::string(Parse(bytes, size).status().message());
  };
  EXPECT_THAT(error("", 0), HasSubstr("f.numoe: 0 bytes, expected a packed shard"));
  EXPECT_THAT(error("X" + head.substr(1)), HasSubstr("does not begin with NUMOEPK1"));
  EXPECT_THAT(error(head.substr(0, head.size() - 1)), HasSubstr("is the file truncated?"));
  for (const size_t at : {kShardPrefixBytes, head.size() - 3}) {
    std::string damaged = head;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THAT(error(damaged), HasSubstr("the header's checksum is wrong"));
  }
  EXPECT_THAT(error(head, kExampleFileBytes - 1),
              HasSubstr("35651647 bytes, expected 2097152 + 33554496 of data; is the file truncated?"));
}

TEST(PackedShardTest, FieldsOutOfBoundsAreNamed) {
  EXPECT_THAT(ErrorOf([](auto& t) { t.erase("layer"); }),
              HasSubstr("f.numoe: header field layer is missing"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["worker_index"] = 7; }),
              HasSubstr("worker_index is 7, expected 0 to 6"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["hidden_size"] = 1ll << 40; }),
              HasSubstr("hidden_size is 1099511627776"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["slice"] = "layer"; }), HasSubstr("expected intermediate or expert"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["format"] = "int3"; }), HasSubstr("int3"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["model_fingerprint"] = "12"; }),
              HasSubstr("expected 16 hexadecimal digits"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["checksums"][1] = 5; }), HasSubstr("expected 16 hexadecimal digits"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["checksums"].erase(0); }), HasSubstr("2 checksums for 33554496 bytes"));
  EXPECT_THAT(ErrorOf([](auto& t) { t["data_bytes"] = UINT64_MAX; }), HasSubstr("expected"));
  EXPECT_THAT(ErrorOf([](auto& t) { t = nlohmann::json::array(); }), HasSubstr("expected an object"));
}

TEST(PackedShardTest, AMismatchSaysWhatToDo) {
  const auto mismatch = [](const std::function<void(ShardHeader&)>& change) {
    ShardHeader found = Example();
    change(found);
    return std::string(MatchShard(found, Example(), "f").message());
  };
  EXPECT_EQ(mismatch([](ShardHeader&) {}), "");
  EXPECT_EQ(
      mismatch([](ShardHeader& h) { h.layout_version = 9; }),
      "f: packed in layout version 9, this program reads version 1; convert the checkpoint again with this "
      "program's numoe-pack");
  EXPECT_THAT(
      mismatch([](ShardHeader& h) { h.slice.worker_count = 8; }),
      HasSubstr("packed for worker 3 of 8 by expert, this is worker 3 of 7 by expert; start workers as"));
  EXPECT_THAT(mismatch([](ShardHeader& h) {
                h.formats = {WeightFormat::kQ4K, WeightFormat::kInt8};
              }),
              HasSubstr("packed as q4_k/int8, expected int4; leave --format at auto"));
  EXPECT_THAT(mismatch([](ShardHeader& h) { h.model_fingerprint = 1; }),
              HasSubstr("the folder mixes models"));
  EXPECT_THAT(mismatch([](ShardHeader& h) { h.layer = 59; }), HasSubstr("holds layer 59"));
}

TEST(PackedShardTest, AWrittenShardHoldsItsDataAtItsPlace) {
  const TemporaryFolder folder;
  ThreadPool pool({.cpus = {0, 0, 0}});
  for (const size_t bytes : {size_t{64}, size_t{5 * 4096}, size_t{kShardBlockBytes + 3 * 64}}) {
    const NodeMemory data = *NodeMemory::Allocate(bytes);
    for (size_t i = 0; i < bytes; ++i) data.data()[i] = static_cast<std::byte>(i * 31 % 253);
    ShardHeader header = Example();
    header.data_bytes = bytes;
    const absl::Status written = WriteShard(folder.path(), header, data.bytes(), pool);
    ASSERT_TRUE(written.ok()) << written;
    const std::filesystem::path path = folder.path() / ShardName(header.slice, header.layer);
    const absl::StatusOr<ShardHeader> read = ReadShardHeader(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(MatchShard(*read, header, "f").ok());
    EXPECT_EQ(read->checksums[0],
              BlockChecksum(data.bytes().first(std::min(bytes, size_t{kShardBlockBytes}))));
    std::ifstream file(path, std::ios::binary);
    file.seekg(kShardDataOffset);
    const std::string content((std::istreambuf_iterator<char>(file)), {});
    ASSERT_EQ(content.size(), bytes);
    EXPECT_EQ(std::memcmp(content.data(), data.data(), bytes), 0);
    EXPECT_FALSE(std::filesystem::exists(path.string() + ".unfinished"));
  }
}

TEST(PackedShardTest, AFolderThatCannotBeWrittenIsAnError) {
  ThreadPool pool({.cpus = {0}});
  const NodeMemory data = *NodeMemory::Allocate(64);
  ShardHeader header = Example();
  header.data_bytes = 64;
  const absl::Status status = WriteShard("/proc/no-such-folder", header, data.bytes(), pool);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot create"));
}

// Shards outlive the program that wrote them. A change of the bytes that packing writes for these matrices
// must raise kPackedLayoutVersion, and change these numbers afterwards.
TEST(PackedShardTest, LayoutVersionOneIsTheseBytes) {
  static_assert(kPackedLayoutVersion == 1);
  constexpr int kRows = 70, kCols = 288;
  std::vector<uint8_t> codes(kRows * kCols);  // no NaN as FP8, and any nibbles
  std::vector<uint16_t> weights(codes.size()), scales(codes.size() / 32);
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<uint8_t>(i * 31 % 127 + i % 2 * 128);
    weights[i] = EncodeBf16(static_cast<float>(static_cast<int>(i * 7919 % 2003) - 1001) / 512);
  }
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = EncodeBf16(static_cast<float>(i % 29 + 1) / 1024);
  const auto checksum = [&](MatrixFormat stored, WeightFormat held) {
    MatrixView view{.format = stored, .rows = kRows, .cols = kCols};
    const bool plain = stored == MatrixFormat::kBF16;
    const size_t bytes = plain                               ? codes.size() * 2
                         : stored == MatrixFormat::kFp8Block ? codes.size()
                                                             : codes.size() / 2;
    view.data = {plain ? reinterpret_cast<const std::byte*>(weights.data())
                       : reinterpret_cast<const std::byte*>(codes.data()),
                 bytes};
    if (!plain) view.scales = {reinterpret_cast<const std::byte*>(scales.data()), scales.size() * 2};
    view.scale_dtype = DType::kBF16;
    view.block_rows = stored == MatrixFormat::kFp8Block ? 128 : 1;
    view.block_cols = stored == MatrixFormat::kFp8Block ? 128 : 32;
    const NodeMemory packed = *NodeMemory::Allocate(PackedBytes(held, kRows, kCols));
    EXPECT_TRUE(PackMatrix(held, view, 0, kRows, 0, kCols, packed.bytes()).ok());
    return fmt::format("{:016x}", BlockChecksum(packed.bytes()));
  };
  EXPECT_EQ(checksum(MatrixFormat::kInt4Group, WeightFormat::kRawInt4), "07d88551184d4b13");
  EXPECT_EQ(checksum(MatrixFormat::kFp8Block, WeightFormat::kFp8), "d14e90426667a743");
  EXPECT_EQ(checksum(MatrixFormat::kBF16, WeightFormat::kBf16), "2c30bfd306d008c3");
  EXPECT_EQ(checksum(MatrixFormat::kBF16, WeightFormat::kInt8), "431d4692eaee2310");
  EXPECT_EQ(checksum(MatrixFormat::kBF16, WeightFormat::kInt4), "2905737dc4a91109");
}

}  // namespace
}  // namespace numoe::worker
