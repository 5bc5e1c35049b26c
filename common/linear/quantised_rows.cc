#include "common/linear/quantised_rows.h"

#include <cstring>
#include <vector>

#include "absl/base/casts.h"

namespace numoe {

QuantisedRows PlainRows(ActivationFormat format, const float* x, int64_t stride, int count) {
  NUMOE_DCHECK(format == ActivationFormat::kFloat || format == ActivationFormat::kFp32);
  return {format, reinterpret_cast<const std::byte*>(x), static_cast<size_t>(stride) * sizeof(float), count};
}

void QuantiseBf16Row(Isa isa, ActivationFormat format, const uint16_t* x, int cols, std::byte* out) {
  if (format == ActivationFormat::kBf16) {
    const size_t bytes = static_cast<size_t>(cols) * sizeof(uint16_t);
    std::memcpy(out, x, bytes);
    std::memset(out + bytes, 0, quantised::RowBytes(format, cols) - bytes);
    return;
  }
  std::vector<float> wide(static_cast<size_t>(cols));
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = absl::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
  QuantiseRow(isa, format, wide.data(), cols, out);
}

void QuantisedMemory::Copy(int row, const std::byte* from) const {
  const size_t plain = static_cast<size_t>(cols) * sizeof(float);
  std::memcpy(At(row), from, format == ActivationFormat::kFloat ? plain : stride());
}

}  // namespace numoe
