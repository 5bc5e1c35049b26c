#include "common/weights/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

constexpr char kMagic[] = {'G', 'G', 'U', 'F'};
static_assert(sizeof kMagic == 4);
constexpr uint32_t kVersionMin = 2, kVersionMax = 3;
constexpr uint64_t kAlignmentDefault = 32;
constexpr char kAlignmentKey[] = "general.alignment";
constexpr char kReadTypes[] =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS or MXFP4";

static_assert(std::has_single_bit(kAlignmentDefault) && kAlignmentDefault <= limits::kGgufAlignmentMax);
// Returns the bytes of an element; 0 for strings, whose length varies, and for numbers that are not an
// element type.
size_t ElementBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

template <typename T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

std::string_view TextOf(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads a file sequentially; every step returns whether the bytes exist.
class Cursor {
 public:
  explicit Cursor(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  absl::Span<const std::byte> Since(size_t begin) const { return bytes_.subspan(begin, at_ - begin); }

  template <typename T>
  bool Take(T& value) {
    if (left() < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return true;
  }
  bool Skip(uint64_t bytes) {
    if (left() < bytes) return false;
    at_ += bytes;
    return true;
  }
  bool TakeString(std::string_view& text) {
    uint64_t length = 0;
    if (!Take(length) || left() < length) return false;
    text = TextOf(bytes_.subspan(at_, length));
    at_ += length;
    return true;
  }

 private:
  absl::Span<const std::byte> bytes_;
  size_t at_ = 0;
};

class Parser {
 public:
  Parser(absl::Span<const std::byte> file, std::string_view name) : file_(file), name_(name), in_(file) {}

  absl::StatusOr<GgufFile> Parse() {
    RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < keys_; ++i) RETURN_IF_ERROR(ReadKey());
    ASSIGN_OR_RETURN(const uint64_t alignment, Alignment());
    std::vector<Entry> entries;
    for (uint64_t i = 0; i < tensors_; ++i) RETURN_IF_ERROR(ReadTensor(entries));
    parsed_.header = file_.first(in_.at());
    RETURN_IF_ERROR(PlaceData(entries, alignment));
    return std::move(parsed_);
  }

 private:
  struct Entry {
    std::string_view name;
    GgufTensor* tensor;
    uint64_t bytes;
    uint64_t offset;
  };

  absl::Status Error(const std::string& message) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}", name_, message));
  }
  absl::Status KeyError(std::string_view key, const std::string& message) const {
    return Error(fmt::format("key {}: {}", Printable(key), message));
  }
  absl::Status TensorError(std::string_view tensor, const std::string& message) const {
    return Error(fmt::format("tensor {}: {}", Printable(tensor), message));
  }
  absl::Status Truncated(const std::string& where) const {
    return Error(
        fmt::format("{} runs past the end at {} bytes; is the file truncated?", where, file_.size()));
  }

  absl::Status ReadCounts() {
    char magic[4] = {};
    uint32_t version = 0;
    if (!in_.Take(magic) || !std::equal(magic, magic + 4, kMagic)) {
      return Error(fmt::format("begins with \"{}\", expected \"GGUF\"; is this a GGUF file?",
                               Printable(TextOf(file_.first(std::min<size_t>(4, file_.size()))))));
    }
    if (!in_.Take(version)) return Truncated("the version");
    if ((version & 0xffffu) == 0 && version != 0)
      return Error("is big-endian, expected little-endian: convert it on a little-endian machine");
    if (version < kVersionMin || version > kVersionMax) {
      return Error(fmt::format("version {}, expected {} or {}", version, kVersionMin, kVersionMax));
    }
    if (!in_.Take(tensors_) || !in_.Take(keys_)) return Truncated("the number of tensors and keys");
    if (tensors_ > limits::kCheckpointTensorsMax) {
      return Error(fmt::format("{} tensors, expected at most {}", tensors_, limits::kCheckpointTensorsMax));
    }
    if (keys_ > limits::kGgufKeysMax)
      return Error(fmt::format("{} keys, expected at most {}", keys_, limits::kGgufKeysMax));
    return absl::OkStatus();
  }

  absl::Status ReadKey() {
    std::string_view key;
    if (!in_.TakeString(key)) return Truncated(fmt::format("the name of key {}", parsed_.metadata.size()));
    if (key.empty() || key.size() > limits::kGgufKeyBytesMax) {
      return KeyError(
          key, fmt::format("a name of {} bytes, expected 1 to {}", key.size(), limits::kGgufKeyBytesMax));
    }
    const auto [slot, inserted] = parsed_.metadata.emplace(key, GgufValue{});
    if (!inserted) return KeyError(key, "occurs twice, expected once");
    GgufValue& value = slot->second;
    RETURN_IF_ERROR(ReadType(key, value.type));
    if (value.type == GgufType::kArray) {
      value.is_array = true;
      RETURN_IF_ERROR(ReadType(key, value.type));
      if (value.type == GgufType::kArray)
        return KeyError(key, "is an array of arrays, expected plain elements");
      if (!in_.Take(value.count)) return Truncated(fmt::format("key {}", Printable(key)));
    }
    const size_t begin = in_.at();
    if (!SkipElements(value)) {
      return Truncated(
          fmt::format("key {}, {},", Printable(key),
                      value.is_array ? fmt::format("an array of {}", value.count) : "one value"));
    }
    value.data = in_.Since(begin);
    return CheckBools(key, value);
  }

  absl::Status ReadType(std::string_view key, GgufType& type) {
    uint32_t number = 0;
    if (!in_.Take(number)) return Truncated(fmt::format("key {}", Printable(key)));
    if (number > static_cast<uint32_t>(GgufType::kF64))
      return KeyError(key,
                      fmt::format("type {}, expected 0 to {}", number, static_cast<int>(GgufType::kF64)));
    type = static_cast<GgufType>(number);
    return absl::OkStatus();
  }

  bool SkipElements(const GgufValue& value) {
    if (const size_t bytes = ElementBytes(value.type); bytes > 0)
      return value.count <= in_.left() / bytes && in_.Skip(value.count * bytes);
    if (value.count > in_.left() / sizeof(uint64_t)) return false;  // a string has at least its length
    std::string_view text;
    for (uint64_t i = 0; i < value.count; ++i) {
      if (!in_.TakeString(text)) return false;
    }
    return true;
  }

  absl::Status CheckBools(std::string_view key, const GgufValue& value) const {
    if (value.type != GgufType::kBool) return absl::OkStatus();
    for (const std::byte byte : value.data) {
      if (byte > std::byte{1})
        return KeyError(key, fmt::format("a boolean of {}, expected 0 or 1", std::to_integer<int>(byte)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Alignment() const {
    const auto it = parsed_.metadata.find(kAlignmentKey);
    if (it == parsed_.metadata.end()) return kAlignmentDefault;
    const std::optional<int64_t> alignment = it->second.Integer();
    if (alignment && *alignment > 0 && static_cast<uint64_t>(*alignment) <= limits::kGgufAlignmentMax &&
        std::has_single_bit(static_cast<uint64_t>(*alignment))) {
      return static_cast<uint64_t>(*alignment);
    }
    return KeyError(kAlignmentKey, fmt::format("is {}, expected a power of two up to {}",
                                               it->second.Describe(), limits::kGgufAlignmentMax));
  }

  absl::Status ReadTensor(std::vector<Entry>& entries) {
    std::string_view name;
    if (!in_.TakeString(name)) return Truncated(fmt::format("the name of tensor {}", entries.size()));
    if (name.empty() || name.size() > limits::kGgufTensorNameBytesMax) {
      return TensorError(name, fmt::format("a name of {} bytes, expected 1 to {}", name.size(),
                                           limits::kGgufTensorNameBytesMax));
    }
    const auto [slot, inserted] = parsed_.tensors.emplace(name, GgufTensor{});
    if (!inserted) return TensorError(name, "occurs twice, expected once");
    GgufTensor& tensor = slot->second;
    RETURN_IF_ERROR(ReadShape(name, tensor.shape));
    uint32_t type = 0;
    uint64_t offset = 0;
    if (!in_.Take(type) || !in_.Take(offset)) return Truncated(fmt::format("tensor {}", Printable(name)));
    const GgmlTraits* traits = FindGgmlTraits(type);
    if (traits == nullptr) return TensorError(name, fmt::format("type {}, expected {}", type, kReadTypes));
    tensor.type = traits->type;
    ASSIGN_OR_RETURN(const uint64_t bytes, ByteCount(name, tensor.shape, *traits));
    entries.push_back({slot->first, &tensor, bytes, offset});
    return absl::OkStatus();
  }

  absl::Status ReadShape(std::string_view name, Shape& shape) {
    uint32_t dimensions = 0;
    if (!in_.Take(dimensions)) return Truncated(fmt::format("tensor {}", Printable(name)));
    if (dimensions < 1 || dimensions > limits::kGgufDimensionsMax) {
      return TensorError(
          name, fmt::format("{} dimensions, expected 1 to {}", dimensions, limits::kGgufDimensionsMax));
    }
    for (uint32_t d = 0; d < dimensions; ++d) {
      uint64_t extent = 0;
      if (!in_.Take(extent)) return Truncated(fmt::format("tensor {}", Printable(name)));
      if (extent == 0 || extent > INT64_MAX)
        return TensorError(name, fmt::format("dimension {} is {}, expected 1 to 2^63 - 1", d, extent));
      shape.insert(shape.begin(), static_cast<int64_t>(extent));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> ByteCount(std::string_view name, const Shape& shape,
                                     const GgmlTraits& traits) const {
    if (shape.back() % traits.block_values != 0) {
      return TensorError(name, fmt::format("rows of {} values, expected a multiple of the {} of a {} block",
                                           shape.back(), traits.block_values, traits.name));
    }
    int64_t values = 1, bytes = 0;
    bool good = true;
    for (const int64_t extent : shape) good = good && !__builtin_mul_overflow(values, extent, &values);
    good = good && !__builtin_mul_overflow(values / traits.block_values, int64_t{traits.block_bytes}, &bytes);
    if (good) return static_cast<uint64_t>(bytes);
    return TensorError(name,
                       fmt::format("shape {}, expected a product within 63 bits", ShapeToString(shape)));
  }

  // Tensors are stored in the order of their offsets, each padded to the alignment.
  absl::Status PlaceData(std::vector<Entry>& entries, uint64_t alignment) const {
    NUMOE_CHECK(std::has_single_bit(alignment)) << alignment;
    NUMOE_CHECK_EQ(entries.size(), parsed_.tensors.size());
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.offset < b.offset; });
    const uint64_t start = (in_.at() + alignment - 1) / alignment * alignment;
    const uint64_t room = start < file_.size() ? file_.size() - start : 0;
    uint64_t expected = 0;
    for (const Entry& entry : entries) {
      if (entry.offset != expected) {
        return TensorError(
            entry.name, fmt::format("data at offset {}, expected {} ({})", entry.offset, expected,
                                    entry.offset % alignment != 0 ? fmt::format("a multiple of {}", alignment)
                                    : entry.offset < expected     ? "it overlaps the tensor before it"
                                                                  : "there is a hole before it"));
      }
      if (entry.bytes > room || entry.offset > room - entry.bytes) {
        return TensorError(
            entry.name,
            fmt::format("{} bytes of data at {}, expected them within the {} bytes of the file; is "
                        "the file truncated?",
                        entry.bytes, start + entry.offset, file_.size()));
      }
      entry.tensor->data = file_.subspan(start + entry.offset, entry.bytes);
      expected = (entry.offset + entry.bytes + alignment - 1) / alignment * alignment;
    }
    return absl::OkStatus();
  }

  const absl::Span<const std::byte> file_;
  const std::string_view name_;
  Cursor in_;
  uint64_t tensors_ = 0;
  uint64_t keys_ = 0;
  GgufFile parsed_;
};

std::optional<int64_t> IntegerAt(GgufType type, const std::byte* data) {
  switch (type) {
    case GgufType::kU8:
      return Load<uint8_t>(data);
    case GgufType::kI8:
      return Load<int8_t>(data);
    case GgufType::kU16:
      return Load<uint16_t>(data);
    case GgufType::kI16:
      return Load<int16_t>(data);
    case GgufType::kU32:
      return Load<uint32_t>(data);
    case GgufType::kI32:
      return Load<int32_t>(data);
    case GgufType::kI64:
      return Load<int64_t>(data);
    case GgufType::kU64:
      if (const auto value = Load<uint64_t>(data); value <= INT64_MAX) return static_cast<int64_t>(value);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int64_t> GgufValue::Integer() const {
  NUMOE_DCHECK(is_array || type == GgufType::kString || data.size() == ElementBytes(type));
  return is_array ? std::nullopt : IntegerAt(type, data.data());
}

std::optional<double> GgufValue::Number() const {
  if (is_array) return std::nullopt;
  if (type == GgufType::kF32) return Load<float>(data.data());
  if (type == GgufType::kF64) return Load<double>(data.data());
  const std::optional<int64_t> integer = Integer();
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

std::optional<bool> GgufValue::Bool() const {
  if (is_array || type != GgufType::kBool) return std::nullopt;
  return data[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::String() const {
  if (is_array || type != GgufType::kString) return std::nullopt;
  return TextOf(data.subspan(sizeof(uint64_t)));
}

std::optional<std::vector<std::string_view>> GgufValue::Strings() const {
  if (!is_array || type != GgufType::kString) return std::nullopt;
  Cursor in(data);
  std::vector<std::string_view> texts(count);
  for (std::string_view& text : texts) {
    const bool whole = in.TakeString(text);
    NUMOE_CHECK(whole) << "the parser must have checked these strings";
  }
  return texts;
}

std::optional<std::vector<int64_t>> GgufValue::Integers() const {
  if (!is_array) return std::nullopt;
  NUMOE_DCHECK(type == GgufType::kString || data.size() == count * ElementBytes(type));
  std::vector<int64_t> values;
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<int64_t> value = IntegerAt(type, data.data() + i * ElementBytes(type));
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::string GgufValue::Describe() const {
  if (is_array) return fmt::format("an array of {}{}", count, type == GgufType::kString ? " strings" : "");
  if (const auto integer = Integer()) return fmt::format("{}", *integer);
  if (const auto number = Number()) return fmt::format("{}", *number);
  if (const auto flag = Bool()) return *flag ? "true" : "false";
  if (const auto text = String()) return fmt::format("\"{}\"", Printable(*text));
  return fmt::format("{}", Load<uint64_t>(data.data()));  // beyond int64
}

const GgufValue* GgufFile::Key(std::string_view name) const {
  const auto it = metadata.find(name);
  return it == metadata.end() ? nullptr : &it->second;
}

const GgufTensor* GgufFile::Tensor(std::string_view name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

std::string GgufFile::Text(std::string_view key) const {
  const GgufValue* value = Key(key);
  return value == nullptr ? "" : std::string(value->String().value_or(""));
}

absl::StatusOr<GgufFile> ParseGguf(absl::Span<const std::byte> file, std::string_view name) {
  return Parser(file, name).Parse();
}

}  // namespace numoe
