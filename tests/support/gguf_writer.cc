#include "tests/support/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "common/base/check.h"

namespace numoe {
namespace {

constexpr size_t kAlignment = 32;

void AppendBytes(std::vector<std::byte>& bytes, const void* data, size_t size) {
  bytes.resize(bytes.size() + size);
  if (size > 0) std::memcpy(bytes.data() + bytes.size() - size, data, size);
}

template <typename T>
void Append(std::vector<std::byte>& bytes, T value) {
  AppendBytes(bytes, &value, sizeof value);
}

void AppendString(std::vector<std::byte>& bytes, const std::string& text) {
  Append<uint64_t>(bytes, text.size());
  AppendBytes(bytes, text.data(), text.size());
}

std::vector<std::byte> Typed(GgufType type) {
  std::vector<std::byte> bytes;
  Append(bytes, type);
  return bytes;
}

std::vector<std::byte> ArrayOf(GgufType type, size_t count) {
  std::vector<std::byte> bytes = Typed(GgufType::kArray);
  Append(bytes, type);
  Append<uint64_t>(bytes, count);
  return bytes;
}

void Pad(std::vector<std::byte>& bytes) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

void GgufWriter::SetBytes(const std::string& key, std::vector<std::byte> value) {
  const auto it = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == key; });
  if (it == keys_.end()) {
    keys_.push_back({key, std::move(value)});
  } else {
    it->value = std::move(value);
  }
}

void GgufWriter::Set(const std::string& key, uint32_t value) {
  std::vector<std::byte> bytes = Typed(GgufType::kU32);
  Append(bytes, value);
  SetBytes(key, std::move(bytes));
}

void GgufWriter::Set(const std::string& key, float value) {
  std::vector<std::byte> bytes = Typed(GgufType::kF32);
  Append(bytes, value);
  SetBytes(key, std::move(bytes));
}

void GgufWriter::Set(const std::string& key, bool value) {
  std::vector<std::byte> bytes = Typed(GgufType::kBool);
  Append<uint8_t>(bytes, value ? 1 : 0);
  SetBytes(key, std::move(bytes));
}

void GgufWriter::Set(const std::string& key, const std::string& value) {
  std::vector<std::byte> bytes = Typed(GgufType::kString);
  AppendString(bytes, value);
  SetBytes(key, std::move(bytes));
}

void GgufWriter::Set(const std::string& key, const std::vector<std::string>& values) {
  std::vector<std::byte> bytes = ArrayOf(GgufType::kString, values.size());
  for (const std::string& value : values) AppendString(bytes, value);
  SetBytes(key, std::move(bytes));
}

void GgufWriter::Set(const std::string& key, const std::vector<int32_t>& values) {
  std::vector<std::byte> bytes = ArrayOf(GgufType::kI32, values.size());
  for (const int32_t value : values) Append(bytes, value);
  SetBytes(key, std::move(bytes));
}

void GgufWriter::SetRaw(const std::string& key, GgufType type, std::vector<std::byte> bytes) {
  std::vector<std::byte> value = Typed(type);
  AppendBytes(value, bytes.data(), bytes.size());
  SetBytes(key, std::move(value));
}

void GgufWriter::Remove(const std::string& key) {
  const auto it = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == key; });
  NUMOE_CHECK(it != keys_.end()) << key;
  keys_.erase(it);
}

void GgufWriter::AddTensor(const std::string& name, GgmlType type, const Shape& shape,
                           std::vector<std::byte> data) {
  const GgmlTraits& traits = TraitsOf(type);
  int64_t values = 1;
  for (const int64_t extent : shape) values *= extent;
  NUMOE_CHECK(!shape.empty() && shape.back() % traits.block_values == 0) << name;
  NUMOE_CHECK_EQ(static_cast<int64_t>(data.size()), values / traits.block_values * traits.block_bytes)
      << name;
  NUMOE_CHECK(!HasTensor(name)) << name;
  tensors_.push_back({name, type, shape, std::move(data)});
}

bool GgufWriter::HasTensor(const std::string& name) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
}

void GgufWriter::RemoveTensor(const std::string& name) {
  NUMOE_CHECK(HasTensor(name)) << name;
  tensors_.erase(
      std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; }));
}

std::vector<std::byte> GgufWriter::Bytes() const {
  std::vector<std::byte> bytes;
  for (const char c : {'G', 'G', 'U', 'F'}) Append(bytes, c);
  Append<uint32_t>(bytes, 3);
  Append<uint64_t>(bytes, tensors_.size());
  Append<uint64_t>(bytes, keys_.size());
  for (const Key& key : keys_) {
    AppendString(bytes, key.name);
    AppendBytes(bytes, key.value.data(), key.value.size());
  }
  std::vector<std::byte> data;
  for (const Tensor& tensor : tensors_) {
    AppendString(bytes, tensor.name);
    Append<uint32_t>(bytes, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d > 0; --d) Append<int64_t>(bytes, tensor.shape[d - 1]);
    Append(bytes, tensor.type);
    Append<uint64_t>(bytes, data.size());
    AppendBytes(data, tensor.data.data(), tensor.data.size());
    Pad(data);
  }
  Pad(bytes);
  AppendBytes(bytes, data.data(), data.size());
  return bytes;
}

void GgufWriter::Write(const std::filesystem::path& file) const {
  const std::vector<std::byte> bytes = Bytes();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  NUMOE_CHECK(out.good()) << "cannot write " << file;
}

void GgufWriter::WriteParts(const std::filesystem::path& dir, const std::string& stem, int parts) const {
  for (int part = 0; part < parts; ++part) {
    GgufWriter one;
    if (part == 0) one.keys_ = keys_;
    one.Set("split.no", static_cast<uint32_t>(part));
    one.Set("split.count", static_cast<uint32_t>(parts));
    one.Set("split.tensors.count", static_cast<uint32_t>(tensors_.size()));
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (static_cast<int>(i) % parts == part) one.tensors_.push_back(tensors_[i]);
    }
    one.Write(dir / fmt::format("{}-{:05}-of-{:05}.gguf", stem, part + 1, parts));
  }
}

}  // namespace numoe
