// The GGUF reader must accept only files whose values and tensors are inside the file, one after the other,
// and never read outside. A configuration that is made from the metadata must have the properties of
// check_config.h.
#include <string>

#include "common/base/check.h"
#include "common/weights/gguf.h"
#include "common/weights/gguf_config.h"
#include "common/weights/weights_limits.h"
#include "tests/fuzz/check_config.h"

namespace numoe {
namespace {

void CheckValue(const std::string& key, const GgufValue& value, absl::Span<const std::byte> header) {
  NUMOE_CHECK(value.data.data() >= header.data() &&
              value.data.data() + value.data.size() <= header.data() + header.size())
      << key;
  NUMOE_CHECK(value.type != GgufType::kArray && (value.is_array || value.count == 1)) << key;
  NUMOE_CHECK_LE(value.count, value.data.size()) << key;
  size_t bytes = 0;
  if (const auto text = value.String()) bytes = text->size() + 8;
  if (const auto texts = value.Strings()) {
    NUMOE_CHECK_EQ(texts->size(), value.count) << key;
    for (const std::string_view text : *texts) bytes += text.size() + 8;
  }
  if (bytes > 0) NUMOE_CHECK_EQ(bytes, value.data.size()) << key;
  if (const auto integers = value.Integers()) NUMOE_CHECK_EQ(integers->size(), value.count) << key;
  NUMOE_CHECK_EQ(value.Describe().find('\n'), std::string::npos) << key;
}

void CheckTensor(const std::string& name, const GgufTensor& tensor, absl::Span<const std::byte> file) {
  NUMOE_CHECK(tensor.data.data() >= file.data() &&
              tensor.data.data() + tensor.data.size() <= file.data() + file.size())
      << name;
  const GgmlTraits& traits = TraitsOf(tensor.type);
  int64_t values = 1;
  for (const int64_t extent : tensor.shape) values *= extent;
  NUMOE_CHECK(!tensor.shape.empty() && tensor.shape.size() <= limits::kGgufDimensionsMax) << name;
  NUMOE_CHECK_EQ(tensor.shape.back() % traits.block_values, 0) << name;
  const int64_t blocks = values / traits.block_values;
  NUMOE_CHECK_EQ(tensor.data.size(), static_cast<size_t>(blocks) * traits.block_bytes) << name;
  float block[256];
  for (int64_t b = 0; b < blocks; ++b)
    DecodeGgmlBlocks(tensor.type, tensor.data.data() + b * traits.block_bytes, 1, block);
}

void CheckMessage(const absl::Status& status) {
  const std::string message(status.message());
  NUMOE_CHECK_EQ(message.rfind("f.gguf: ", 0), 0u) << message;
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
}

void CheckFile(const GgufFile& file, absl::Span<const std::byte> bytes) {
  for (const auto& [key, value] : file.metadata) CheckValue(key, value, file.header);
  size_t total = 0;
  for (const auto& [name, tensor] : file.tensors) {
    CheckTensor(name, tensor, bytes.subspan(file.header.size()));
    total += tensor.data.size();
  }
  NUMOE_CHECK_LE(total + file.header.size(), bytes.size());
  const absl::StatusOr<ModelConfig> config = ReadGgufConfig(file, "f.gguf");
  if (config.ok()) {
    CheckConfig(*config);
  } else {
    CheckMessage(config.status());
  }
  const absl::StatusOr<GenerationDefaults> defaults = ReadGgufGenerationDefaults(file, "f.gguf");
  if (!defaults.ok()) CheckMessage(defaults.status());
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const absl::StatusOr<numoe::GgufFile> file = numoe::ParseGguf(bytes, "f.gguf");
  if (file.ok()) {
    numoe::CheckFile(*file, bytes);
  } else {
    numoe::CheckMessage(file.status());
  }
  return 0;
}
