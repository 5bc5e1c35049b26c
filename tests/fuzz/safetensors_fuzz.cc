// The reader of safetensors headers must accept only files whose tensors fill the data exactly, and never
// read outside.
#include <cstring>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/weights/safetensors.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

void CheckReader(absl::Span<const std::byte> file) {
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(file, "f.safetensors");
  if (!header.ok()) {
    const std::string message(header.status().message());
    NUMOE_CHECK_EQ(message.rfind("f.safetensors: ", 0), 0u) << message;
    NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
    NUMOE_CHECK_LT(message.size(), 2000u) << message;
    return;
  }
  const std::byte* data = header->json.data() + header->json.size();
  const std::byte* end = file.data() + file.size();
  NUMOE_CHECK_LE(header->json.size(), limits::kSafetensorsHeaderBytesMax);
  size_t total = 0;
  unsigned sum = 0;
  for (const auto& [name, view] : header->tensors) {
    NUMOE_CHECK_EQ(view.data.size(), static_cast<size_t>(view.ElementCount()) * DTypeBytes(view.dtype))
        << name;
    NUMOE_CHECK(view.data.data() >= data && view.data.data() + view.data.size() <= end) << name;
    for (const std::byte byte : view.data) sum += std::to_integer<unsigned>(byte);
    total += view.data.size();
  }
  NUMOE_CHECK_EQ(total, static_cast<size_t>(end - data)) << sum;
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  numoe::CheckReader({bytes, size});
  // Tests the input again with the correct length for its text. Most edits of the text make the length wrong,
  // so that the code after that check would not be reached.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t brace = text.find_last_of('}');
  if (size < 8 || brace == std::string_view::npos || brace < 8) return 0;
  std::vector<std::byte> repaired(bytes, bytes + size);
  const uint64_t length = brace - 7;
  std::memcpy(repaired.data(), &length, sizeof length);
  numoe::CheckReader(repaired);
  return 0;
}
