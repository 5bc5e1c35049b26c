#include "expert_worker/experts/packed_shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/input_file.h"
#include "common/weights/weights_limits.h"
#include "expert_worker/experts/expert_formats.h"

namespace numoe::worker {
namespace {

using nlohmann::json;

constexpr char kMagic[8] = {'N', 'U', 'M', 'O', 'E', 'P', 'K', '1'};
constexpr size_t kTextBytesMax = kShardDataOffset - kShardPrefixBytes;
static_assert(kShardPrefixBytes < kShardDataOffset && kShardDataOffset % kReadAlignment == 0);
static_assert(kShardBlockBytes % kReadAlignment == 0, "blocks are aligned for direct writes");

struct Prefix {
  char magic[8] = {};
  uint32_t text_bytes = 0;
  uint32_t zero = 0;
  uint64_t text_checksum = 0;
};
static_assert(sizeof(Prefix) == kShardPrefixBytes);

std::string Hex(uint64_t value) { return fmt::format("{:016x}", value); }

std::optional<uint64_t> ParseHex(const json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() != 16) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Reads the fields of the header, each of which must exist and be within its bounds.
class TextReader {
 public:
  TextReader(const json& text, std::string_view name) : text_(text), name_(name) {}

  int Int(const char* key, int low, int high) {
    const json* value = Find(key);
    if (value != nullptr && value->is_number_integer() && *value >= low && *value <= high)
      return value->get<int>();
    Fail(key, fmt::format("expected {} to {}", low, high));
    return low;
  }
  uint64_t Number(const char* key) {
    const json* value = Find(key);
    if (value != nullptr && value->is_number_unsigned()) return value->get<uint64_t>();
    Fail(key, "expected a number of bytes");
    return 0;
  }
  uint64_t HexNumber(const char* key) {
    const json* value = Find(key);
    if (const std::optional<uint64_t> number = value == nullptr ? std::nullopt : ParseHex(*value))
      return *number;
    Fail(key, "expected 16 hexadecimal digits");
    return 0;
  }
  std::string Text(const char* key) {
    const json* value = Find(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    Fail(key, "expected a string");
    return "";
  }
  std::vector<uint64_t> HexNumbers(const char* key) {
    std::vector<uint64_t> numbers;
    const json* value = Find(key);
    if (value == nullptr || !value->is_array()) Fail(key, "expected a list");
    for (const json& entry : value != nullptr && value->is_array() ? *value : json::array()) {
      const std::optional<uint64_t> number = ParseHex(entry);
      if (!number) Fail(key, "expected 16 hexadecimal digits in each entry");
      numbers.push_back(number.value_or(0));
    }
    return numbers;
  }

  void Fail(const char* key, const std::string& expected) {
    if (!status_.ok()) return;
    const json* value = Find(key);
    status_ = absl::InvalidArgumentError(fmt::format("{}: header field {} is {}, {}", name_, key,
                                                     value == nullptr ? "missing" : Brief(*value), expected));
  }
  const absl::Status& status() const { return status_; }

 private:
  const json* Find(const char* key) const {
    const auto it = text_.find(key);
    return it == text_.end() ? nullptr : &*it;
  }

  const json& text_;
  const std::string_view name_;
  absl::Status status_;
};

absl::StatusOr<ShardHeader> ReadText(const json& text, std::string_view name) {
  TextReader reader(text, name);
  ShardHeader header;
  header.layout_version = reader.Int("layout_version", 1, 1'000'000);
  const absl::StatusOr<ExpertFormats> formats = ParseFormats(reader.Text("format"));
  if (!formats.ok()) reader.Fail("format", "expected a weight format, such as int8 or q4_k/int8");
  const std::string slice = reader.Text("slice");
  if (slice == SliceModeName(SliceMode::kExpert)) {
    header.slice.mode = SliceMode::kExpert;
  } else if (slice != SliceModeName(SliceMode::kIntermediate)) {
    reader.Fail("slice", "expected intermediate or expert");
  }
  header.slice.worker_count = reader.Int("worker_count", 1, limits::kWorkersMax);
  header.slice.worker_index = reader.Int("worker_index", 0, header.slice.worker_count - 1);
  header.layer = reader.Int("layer", 0, limits::kLayersMax - 1);
  header.hidden_size = reader.Int("hidden_size", 1, limits::kHiddenSizeMax);
  header.width = reader.Int("width", 1, limits::kHiddenSizeMax);
  header.num_experts = reader.Int("num_experts", 1, limits::kExpertsMax);
  header.model_fingerprint = reader.HexNumber("model_fingerprint");
  header.data_bytes = reader.Number("data_bytes");
  header.checksums = reader.HexNumbers("checksums");
  RETURN_IF_ERROR(reader.status());
  header.formats = *formats;
  return header;
}

uint64_t BlocksOf(uint64_t data_bytes) {
  return data_bytes / kShardBlockBytes + (data_bytes % kShardBlockBytes == 0 ? 0 : 1);
}

absl::Status WriteError(const std::filesystem::path& path, const char* what) {
  const int code = errno;
  const std::string message = fmt::format("{}: {}: {}", path.string(), what, std::strerror(code));
  return code == ENOSPC || code == EDQUOT
             ? absl::ResourceExhaustedError(message +
                                            "; free some space and run it again: "
                                            "complete shards are kept")
             : absl::UnavailableError(message);
}

absl::Status WriteFully(int fd, const std::filesystem::path& path, const std::byte* data, size_t size,
                        uint64_t offset) {
  while (size > 0) {
    const ssize_t put = pwrite(fd, data, size, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return WriteError(path, "cannot write");
    data += put;
    size -= static_cast<size_t>(put);
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

// Runs body(block, begin, size) for each block of `bytes` and returns the first error.
template <typename Body>
absl::Status ForBlocks(uint64_t bytes, ThreadPool& pool, Body body) {
  FirstError first_error;
  pool.Run(static_cast<int>(BlocksOf(bytes)), [&](int block, int) {
    const uint64_t begin = static_cast<uint64_t>(block) * kShardBlockBytes;
    first_error.Note(body(static_cast<size_t>(block), begin, std::min(kShardBlockBytes, bytes - begin)));
  });
  return first_error.status();
}

// Writes the data first, without the page cache except for a last part that is not a whole block of the disk;
// then the header.
absl::Status WriteContent(const std::filesystem::path& path, ShardHeader& header,
                          absl::Span<const std::byte> data, ThreadPool& pool) {
  const FileDescriptor buffered(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (buffered.get() < 0) return WriteError(path, "cannot create");
  const FileDescriptor direct(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT));
  header.checksums.resize(BlocksOf(data.size()));
  RETURN_IF_ERROR(ForBlocks(data.size(), pool, [&](size_t block, uint64_t begin, uint64_t size) {
    const absl::Span<const std::byte> part = data.subspan(begin, size);
    header.checksums[block] = BlockChecksum(part);
    size_t aligned = direct.get() >= 0 ? size / kReadAlignment * kReadAlignment : 0;
    if (aligned > 0) {
      const ssize_t put =
          pwrite(direct.get(), part.data(), aligned, static_cast<off_t>(kShardDataOffset + begin));
      aligned = put > 0 ? static_cast<size_t>(put) / kReadAlignment * kReadAlignment : 0;
      NUMOE_CHECK_LE(aligned, size);
    }
    return WriteFully(buffered.get(), path, part.data() + aligned, size - aligned,
                      kShardDataOffset + begin + aligned);
  }));
  const std::string head = SerialiseShardHeader(header);
  NUMOE_CHECK_LE(head.size(), kShardDataOffset);
  RETURN_IF_ERROR(
      WriteFully(buffered.get(), path, reinterpret_cast<const std::byte*>(head.data()), head.size(), 0));
  if (fsync(buffered.get()) != 0) return WriteError(path, "cannot write to disk");
  posix_fadvise(buffered.get(), 0, 0, POSIX_FADV_DONTNEED);
  return absl::OkStatus();
}

}  // namespace

ShardHeader DescribeShard(const SliceLayout& layout, LayerId layer, uint64_t model_fingerprint) {
  return {.formats = layout.formats(layer),
          .slice = layout.spec(),
          .layer = layer,
          .hidden_size = layout.hidden_size(),
          .width = layout.width(),
          .num_experts = static_cast<int>(layout.owned().size()),
          .model_fingerprint = model_fingerprint,
          .data_bytes = layout.layer_bytes(layer),
          .checksums = {}};
}

std::string ShardName(const SliceSpec& slice, LayerId layer) {
  return fmt::format("experts-of-{}-part-{}-layer-{:03}{}", slice.worker_count, slice.worker_index, layer,
                     kShardExtension);
}

std::string SerialiseShardHeader(const ShardHeader& header) {
  json text = {
      {"layout_version", header.layout_version},   {"format", FormatsName(header.formats)},
      {"slice", SliceModeName(header.slice.mode)}, {"worker_count", header.slice.worker_count},
      {"worker_index", header.slice.worker_index}, {"layer", header.layer},
      {"hidden_size", header.hidden_size},         {"width", header.width},
      {"num_experts", header.num_experts},         {"model_fingerprint", Hex(header.model_fingerprint)},
      {"data_bytes", header.data_bytes},           {"checksums", json::array()}};
  for (const uint64_t checksum : header.checksums) text["checksums"].push_back(Hex(checksum));
  const std::string body = text.dump();
  NUMOE_CHECK_LE(body.size(), kTextBytesMax);
  Prefix prefix;
  std::memcpy(prefix.magic, kMagic, sizeof kMagic);
  prefix.text_bytes = static_cast<uint32_t>(body.size());
  prefix.text_checksum = XXH3_64bits(body.data(), body.size());
  NUMOE_CHECK_EQ(header.checksums.size(), BlocksOf(header.data_bytes));
  std::string head(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  return head + body;
}

absl::StatusOr<ShardHeader> ParseShardHeader(absl::Span<const std::byte> head, uint64_t file_bytes,
                                             std::string_view name) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", name, what));
  };
  Prefix prefix;
  if (head.size() < sizeof prefix) return bad(fmt::format("{} bytes, expected a packed shard", head.size()));
  std::memcpy(&prefix, head.data(), sizeof prefix);
  if (std::memcmp(prefix.magic, kMagic, sizeof kMagic) != 0)
    return bad("does not begin with NUMOEPK1, expected a packed shard of numoe-pack");
  if (prefix.text_bytes > kTextBytesMax || prefix.text_bytes > head.size() - sizeof prefix ||
      prefix.zero != 0) {
    return bad(fmt::format("header of {} bytes in a file of {}, expected at most {}; is the file truncated?",
                           prefix.text_bytes, file_bytes, kTextBytesMax));
  }
  const std::string_view body(reinterpret_cast<const char*>(head.data()) + sizeof prefix, prefix.text_bytes);
  if (XXH3_64bits(body.data(), body.size()) != prefix.text_checksum)
    return bad("the header's checksum is wrong: the file is damaged; convert again");
  ASSIGN_OR_RETURN(const json text, ParseStrictJson(body, fmt::format("{}: header", name)));
  if (!text.is_object()) return bad(fmt::format("header is {}, expected an object", Brief(text)));
  ASSIGN_OR_RETURN(ShardHeader header, ReadText(text, name));
  if (header.checksums.size() != BlocksOf(header.data_bytes)) {
    return bad(fmt::format("{} checksums for {} bytes of data, expected {}", header.checksums.size(),
                           header.data_bytes, BlocksOf(header.data_bytes)));
  }
  if (header.data_bytes > file_bytes || file_bytes - header.data_bytes != kShardDataOffset) {
    return bad(fmt::format("{} bytes, expected {} + {} of data; is the file truncated?", file_bytes,
                           kShardDataOffset, header.data_bytes));
  }
  return header;
}

absl::StatusOr<ShardHeader> ReadShardHeader(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegularFile(path));
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(fd.get(), path));
  std::vector<std::byte> head(std::min<uint64_t>(identity.size, kShardPrefixBytes));
  RETURN_IF_ERROR(ReadFully(fd.get(), path, 0, absl::MakeSpan(head)));
  Prefix prefix;
  if (head.size() == sizeof prefix) {
    std::memcpy(&prefix, head.data(), sizeof prefix);
    head.resize(std::min<uint64_t>(identity.size,
                                   sizeof prefix + std::min<size_t>(prefix.text_bytes, kTextBytesMax)));
    RETURN_IF_ERROR(ReadFully(fd.get(), path, 0, absl::MakeSpan(head)));
  }
  return ParseShardHeader(head, identity.size, path.string());
}

absl::Status MatchShard(const ShardHeader& found, const ShardHeader& wanted, std::string_view name) {
  const auto differs = [&](const std::string& what, const std::string& advice) {
    return absl::FailedPreconditionError(fmt::format("{}: {}; {}", name, what, advice));
  };
  if (found.layout_version != wanted.layout_version) {
    return differs(fmt::format("packed in layout version {}, this program reads version {}",
                               found.layout_version, wanted.layout_version),
                   "convert the checkpoint again with this program's numoe-pack");
  }
  if (found.slice != wanted.slice) {
    return differs(
        fmt::format("packed for worker {} of {} by {}, this is worker {} of {} by {}",
                    found.slice.worker_index, found.slice.worker_count, SliceModeName(found.slice.mode),
                    wanted.slice.worker_index, wanted.slice.worker_count, SliceModeName(wanted.slice.mode)),
        "start workers as they were packed for, or convert again with other --workers and --slice");
  }
  if (found.formats != wanted.formats) {
    return differs(
        fmt::format("packed as {}, expected {}", FormatsName(found.formats), FormatsName(wanted.formats)),
        "leave --format at auto, or convert again with another --format");
  }
  if (found.model_fingerprint != wanted.model_fingerprint || found.layer != wanted.layer ||
      found.hidden_size != wanted.hidden_size || found.width != wanted.width ||
      found.num_experts != wanted.num_experts || found.data_bytes != wanted.data_bytes) {
    return differs(
        fmt::format("holds layer {} of model {} with {} experts of {} x {}, expected layer {} of model {} "
                    "with {} of {} x {}",
                    found.layer, Hex(found.model_fingerprint), found.num_experts, found.width,
                    found.hidden_size, wanted.layer, Hex(wanted.model_fingerprint), wanted.num_experts,
                    wanted.width, wanted.hidden_size),
        "the folder mixes models: convert again into an empty one");
  }
  return absl::OkStatus();
}

uint64_t BlockChecksum(absl::Span<const std::byte> block) { return XXH3_64bits(block.data(), block.size()); }

absl::Status WriteShard(const std::filesystem::path& dir, ShardHeader header,
                        absl::Span<const std::byte> data, ThreadPool& pool) {
  NUMOE_CHECK_EQ(header.data_bytes, data.size());
  const std::filesystem::path path = dir / ShardName(header.slice, header.layer);
  const std::filesystem::path unfinished = path.string() + ".unfinished";
  RETURN_IF_ERROR(WriteContent(unfinished, header, data, pool));
  if (rename(unfinished.c_str(), path.c_str()) != 0) return WriteError(path, "cannot rename to");
  const FileDescriptor folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || fsync(folder.get()) != 0) return WriteError(dir, "cannot write to disk");
  return absl::OkStatus();
}

}  // namespace numoe::worker
