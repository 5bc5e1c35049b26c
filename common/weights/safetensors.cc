#include "common/weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

using nlohmann::json;

absl::Status Error(std::string_view file, std::string_view tensor, const std::string& message) {
  if (tensor.empty()) return absl::InvalidArgumentError(fmt::format("{}: {}", file, message));
  return absl::InvalidArgumentError(fmt::format("{}: tensor {}: {}", file, Printable(tensor), message));
}

// Returns the product of `shape` and the element size; nullopt for a bad entry, or if any partial product
// exceeds int64 (so that TensorView::ElementCount cannot overflow either).
std::optional<uint64_t> ByteCount(const json& shape, size_t element_bytes, Shape& out) {
  NUMOE_DCHECK(out.empty() && element_bytes > 0);
  auto bytes = static_cast<int64_t>(element_bytes);
  for (const json& dim : shape) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX) return std::nullopt;
    if (__builtin_mul_overflow(bytes, dim.get<int64_t>(), &bytes)) return std::nullopt;
    out.push_back(dim.get<int64_t>());
  }
  return static_cast<uint64_t>(bytes);
}

absl::Status CheckMetadata(const json& metadata, std::string_view file) {
  bool good = metadata.is_object();
  for (const json& value : metadata) good = good && value.is_string();
  if (good) return absl::OkStatus();
  return Error(file, "", fmt::format("__metadata__ is {}, expected an object of strings", Brief(metadata)));
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view tensor;
};

absl::StatusOr<TensorView> ParseEntry(const json& entry, absl::Span<const std::byte> data, Range& range,
                                      std::string_view file) {
  const std::string_view name = range.tensor;
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return Error(
        file, name,
        fmt::format("header entry {}, expected an object with dtype, shape and data_offsets", Brief(entry)));
  }
  const json& dtype = entry["dtype"];
  const std::optional<DType> parsed =
      dtype.is_string() ? ParseDType(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!parsed) {
    return Error(file, name,
                 fmt::format("unknown dtype {}, expected BOOL, U8, I8, F8_E4M3, F8_E5M2, F8_E8M0, "
                             "I16, U16, F16, BF16, I32, U32, F32, I64, U64 or F64",
                             Brief(dtype)));
  }
  TensorView view{.dtype = *parsed, .shape = {}, .data = {}};
  const json& shape = entry["shape"];
  const std::optional<uint64_t> bytes =
      shape.is_array() ? ByteCount(shape, DTypeBytes(*parsed), view.shape) : std::nullopt;
  if (!bytes)
    return Error(file, name,
                 fmt::format("shape {}, expected a list of sizes whose product fits 63 bits", Brief(shape)));
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return Error(file, name, fmt::format("data_offsets {}, expected [begin, end]", Brief(offsets)));
  }
  range.begin = offsets[0].get<uint64_t>();
  range.end = offsets[1].get<uint64_t>();
  if (range.begin > range.end || range.end > data.size()) {
    return Error(file, name,
                 fmt::format("data_offsets [{}, {}], expected begin <= end within the {} bytes of data; "
                             "is the file truncated?",
                             range.begin, range.end, data.size()));
  }
  if (range.end - range.begin != *bytes) {
    return Error(file, name,
                 fmt::format("{} bytes of data, expected {} for {} {}", range.end - range.begin, *bytes,
                             DTypeName(*parsed), ShapeToString(view.shape)));
  }
  view.data = data.subspan(range.begin, *bytes);
  return view;
}

absl::Status CheckContiguous(std::vector<Range>& ranges, uint64_t data_bytes, std::string_view file) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end, a.tensor) < std::tie(b.begin, b.end, b.tensor);
  });
  uint64_t expected = 0;
  for (const Range& range : ranges) {
    if (range.begin != expected) {
      return Error(file, range.tensor,
                   fmt::format("data begins at {}, expected {} ({})", range.begin, expected,
                               range.begin < expected ? "it overlaps the tensor before it"
                                                      : "there is a hole before it"));
    }
    expected = range.end;
  }
  if (expected != data_bytes) {
    return Error(file, "", fmt::format("{} bytes of data, expected {} by the header", data_bytes, expected));
  }
  return absl::OkStatus();
}

}  // namespace

size_t SafetensorsHeadBytes(absl::Span<const std::byte> length_bytes) {
  uint64_t length = 0;
  if (length_bytes.size() < sizeof length) return length_bytes.size();
  std::memcpy(&length, length_bytes.data(), sizeof length);
  return length > limits::kSafetensorsHeaderBytesMax ? sizeof length : sizeof length + length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> head,
                                                         absl::Span<const std::byte> file,
                                                         std::string_view name) {
  uint64_t length = 0;
  if (file.size() < sizeof length) {
    return Error(name, "", fmt::format("{} bytes, expected at least 8; is the file truncated?", file.size()));
  }
  NUMOE_CHECK_GE(head.size(), sizeof length);
  std::memcpy(&length, head.data(), sizeof length);
  if (length > limits::kSafetensorsHeaderBytesMax) {
    return Error(name, "",
                 fmt::format("header of {} bytes, expected at most {}; is this a safetensors file?", length,
                             limits::kSafetensorsHeaderBytesMax));
  }
  if (length > file.size() - sizeof length) {
    return Error(name, "",
                 fmt::format("header of {} bytes, expected at most the {} bytes that follow its length; is "
                             "the file truncated?",
                             length, file.size() - sizeof length));
  }
  NUMOE_CHECK_GE(head.size(), sizeof length + length);
  SafetensorsHeader header{.tensors = {}, .json = head.subspan(sizeof length, length)};
  const std::string_view text(reinterpret_cast<const char*>(header.json.data()), length);
  if (text.empty() || text[0] != '{') {
    return Error(name, "",
                 fmt::format("header begins with \"{}\", expected '{{'; is this a safetensors file?",
                             Printable(text.substr(0, 1))));
  }
  ASSIGN_OR_RETURN(const json root, ParseStrictJson(text, fmt::format("{}: header", name)));

  const absl::Span<const std::byte> data = file.subspan(sizeof length + length);
  std::vector<Range> ranges;
  for (const auto& [key, entry] : root.items()) {
    if (key == "__metadata__") {
      RETURN_IF_ERROR(CheckMetadata(entry, name));
      continue;
    }
    if (header.tensors.size() >= limits::kCheckpointTensorsMax) {
      return Error(name, "",
                   fmt::format("more tensors than expected, at most {}", limits::kCheckpointTensorsMax));
    }
    const auto slot = header.tensors.emplace(key, TensorView{}).first;
    Range range{.tensor = slot->first};
    ASSIGN_OR_RETURN(slot->second, ParseEntry(entry, data, range, name));
    ranges.push_back(range);
  }
  NUMOE_CHECK_EQ(ranges.size(), header.tensors.size());
  RETURN_IF_ERROR(CheckContiguous(ranges, data.size(), name));
  return header;
}

}  // namespace numoe
