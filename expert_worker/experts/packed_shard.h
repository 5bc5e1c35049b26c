// A packed shard: one slice's weights of one MoE layer in a file that can be mapped and computed on directly.
//
//   0        "NUMOEPK1", u32 length of the text, u32 zero, u64 XXH3 of the text   (little-endian)
//   24       the text: JSON, what the shard holds (ShardHeader) and a checksum for each kShardBlockBytes of
//   data 2 MiB    the data: a layer's block as SliceLayout has it, aligned for huge pages
//
// A shard is written under another name, and renamed when it is complete and on disk, so a shard that exists
// is complete. The whole header is checked before any data is read; ParseShardHeader is a pure function, and
// is fuzzed. Errors name the file, what was found, what was expected and what to do. Checksums are XXH3 of 64
// bits (https://xxhash.com).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/threading/thread_pool.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

// Raise this when the packed bytes of any format change (packed_shard_test.cc notices it).
inline constexpr int kPackedLayoutVersion = 1;
inline constexpr uint64_t kShardDataOffset = 2 << 20;  // bytes
inline constexpr uint64_t kShardBlockBytes = 16 << 20;
inline constexpr size_t kShardPrefixBytes = 24;

struct ShardHeader {
  int layout_version = kPackedLayoutVersion;
  ExpertFormats formats;
  SliceSpec slice;
  LayerId layer = 0;
  int hidden_size = 0;
  int width = 0;        // of the slice's part of an expert
  int num_experts = 0;  // of the model
  uint64_t model_fingerprint = 0;
  uint64_t data_bytes = 0;
  std::vector<uint64_t> checksums;  // of each block of the data
};

/// Returns the header of a shard of this slice and layer, without checksums.
ShardHeader DescribeShard(const SliceLayout& layout, LayerId layer, uint64_t model_fingerprint);
inline constexpr char kShardExtension[] = ".numoe";
/// Returns "experts-of-2-part-0-layer-003.numoe".
std::string ShardName(const SliceSpec& slice, LayerId layer);

std::string SerialiseShardHeader(const ShardHeader& header);
/// `head`: the file's first bytes, at least the prefix and the text (or all of a shorter file). `name` is for
/// errors.
absl::StatusOr<ShardHeader> ParseShardHeader(absl::Span<const std::byte> head, uint64_t file_bytes,
                                             std::string_view name);
absl::StatusOr<ShardHeader> ReadShardHeader(const std::filesystem::path& path);
/// Returns OK if `found` is what `wanted` describes. FailedPrecondition says what differs and what to do.
absl::Status MatchShard(const ShardHeader& found, const ShardHeader& wanted, std::string_view name);

uint64_t BlockChecksum(absl::Span<const std::byte> block);
/// Writes DIR/ShardName with the checksums of `data`, with all of the pool's threads, and without the page
/// cache if the file system allows that.
absl::Status WriteShard(const std::filesystem::path& dir, ShardHeader header,
                        absl::Span<const std::byte> data, ThreadPool& pool);

}  // namespace numoe::worker
