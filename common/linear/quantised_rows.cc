#include "common/linear/quantised_rows.h"

#include <cstring>
#include <vector>

#include "absl/base/casts.h"

namespace numoe {

QuantisedRows PlainRows(ActivationForm form, const float* x, int64_t stride, int count) {
  NUMOE_DCHECK(form == ActivationForm::kFloat || form == ActivationForm::kFp32);
  return {form, reinterpret_cast<const std::byte*>(x), static_cast<size_t>(stride) * sizeof(float), count};
}

void QuantiseRow(Isa isa, ActivationForm form, const float* x, int cols, std::byte* out) {
  if (form == ActivationForm::kFloat) {
    std::memcpy(out, x, static_cast<size_t>(cols) * sizeof(float));
  } else {
    RoundRow(isa, form, x, cols, out);
  }
}

void QuantiseBf16Row(Isa isa, ActivationForm form, const uint16_t* x, int cols, std::byte* out) {
  if (form == ActivationForm::kBf16) {
    const size_t bytes = static_cast<size_t>(cols) * sizeof(uint16_t);
    std::memcpy(out, x, bytes);
    std::memset(out + bytes, 0, rounded::RowBytes(form, cols) - bytes);
    return;
  }
  std::vector<float> wide(static_cast<size_t>(cols));
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = absl::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
  QuantiseRow(isa, form, wide.data(), cols, out);
}

void QuantisedMemory::Copy(int row, const std::byte* from) const {
  const size_t plain = static_cast<size_t>(cols) * sizeof(float);
  std::memcpy(At(row), from, form == ActivationForm::kFloat ? plain : stride());
}

}  // namespace numoe
