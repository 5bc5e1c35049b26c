#include "tests/support/safetensors_writer.h"

#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp8.h"
#include "common/formats/int4.h"
#include "nlohmann/json.hpp"

namespace numoe {
void SafetensorsWriter::Add(const std::string& name, DType dtype, const Shape& shape,
                            std::vector<std::byte> data) {
  size_t bytes = DTypeBytes(dtype);
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  NUMOE_CHECK_EQ(data.size(), bytes) << name;
  tensors_[name] = {dtype, shape, std::move(data)};
}

void SafetensorsWriter::Remove(const std::string& name) { NUMOE_CHECK_EQ(tensors_.erase(name), 1u) << name; }

std::vector<std::byte>& SafetensorsWriter::Bytes(const std::string& name) {
  const auto it = tensors_.find(name);
  NUMOE_CHECK(it != tensors_.end()) << name;
  return it->second.data;
}

void SafetensorsWriter::AddLinear(const std::string& module, MatrixFormat format, int rows, int cols,
                                  float scale) {
  const auto elements = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  std::normal_distribution<float> normal(0.0f, scale);
  std::uniform_real_distribution<float> around_one(0.5f, 1.5f);
  if (format == MatrixFormat::kFp8Block) {
    constexpr int kBlock = 128;
    std::vector<uint8_t> codes(elements);
    for (uint8_t& code : codes) code = EncodeFp8(normal(random_) / scale * 16);
    const int64_t scale_rows = (rows + kBlock - 1) / kBlock;
    const int64_t scale_cols = (cols + kBlock - 1) / kBlock;
    std::vector<float> scales(static_cast<size_t>(scale_rows * scale_cols));
    for (float& s : scales) s = scale / 16 * around_one(random_);
    Add(module + ".weight", DType::kF8E4M3, {rows, cols}, BytesOf(codes));
    Add(module + ".weight_scale_inv", DType::kF32, {scale_rows, scale_cols}, BytesOf(scales));
    return;
  }
  if (format == MatrixFormat::kInt4Group) {
    NUMOE_CHECK(cols % kInt4GroupSize == 0) << module;
    std::vector<uint8_t> packed(elements / 2);
    for (uint8_t& pair : packed) pair = static_cast<uint8_t>(random_());
    std::vector<uint16_t> scales(elements / kInt4GroupSize);
    for (uint16_t& s : scales) s = EncodeBf16(scale / 4.6f * around_one(random_));  // 4.6: deviation of -8..7
    Add(module + ".weight_packed", DType::kI32, {rows, cols / 8}, BytesOf(packed));
    Add(module + ".weight_scale", DType::kBF16, {rows, cols / kInt4GroupSize}, BytesOf(scales));
    Add(module + ".weight_shape", DType::kI32, {2}, BytesOf(std::vector<int32_t>{rows, cols}));
    return;
  }
  NUMOE_CHECK(format == MatrixFormat::kBF16) << "no writer for this format";
  std::vector<uint16_t> weights(elements);
  for (uint16_t& w : weights) w = EncodeBf16(normal(random_));
  Add(module + ".weight", DType::kBF16, {rows, cols}, BytesOf(weights));
}

void SafetensorsWriter::Write(const std::filesystem::path& dir) const {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors_) {
    header[name] = {{"dtype", std::string(DTypeName(tensor.dtype))},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream file(dir / "model.safetensors", std::ios::binary);
  const uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& [name, tensor] : tensors_) {
    file.write(reinterpret_cast<const char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size()));
  }
  file.close();
  NUMOE_CHECK(file.good()) << "cannot write to " << dir;
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string name = (parent / "numoe-test-XXXXXX").string();
  NUMOE_CHECK(mkdtemp(name.data()) != nullptr) << name;
  path_ = name;
}

void TemporaryFolder::WriteLine(const std::filesystem::path& file, const std::string& text) const {
  const std::filesystem::path full = path_ / file;
  std::filesystem::create_directories(full.parent_path());
  std::ofstream(full) << text << "\n";
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a leftover folder in /tmp fails no test
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace numoe
