// Quantised activations: rows of one ActivationForm, and how fp32 and BF16 rows become them.
//
// A row is quantised once, however many matrices it is multiplied by. The form is ChooseForm's answer
// (kernels.h) to the instruction set, the weights' format, the number of rows, and EffectivePrecision.
// ActivationForm::kFloat is one of the forms: its rows are plain fp32, so that users have one path for all.
// Values that own nothing; functions are thread-safe where they write different rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"

namespace numoe {

/// The precision of a product's activations: an exact call must give each token the same bits whoever else is
/// in the batch, so it takes no form that is chosen by the number of tokens.
constexpr Precision EffectivePrecision(Precision precision, bool exact) {
  return exact && precision == Precision::kFast ? Precision::kBf16 : precision;
}

/// `count` rows that are read, `stride` bytes apart.
struct QuantisedRows {
  ActivationForm form = ActivationForm::kFloat;
  const std::byte* data = nullptr;
  size_t stride = 0;  // bytes
  int count = 0;

  const std::byte* Row(int row) const {
    NUMOE_DCHECK(0 <= row && row < count) << "row " << row << " of " << count;
    return data + static_cast<size_t>(row) * stride;
  }
  /// Rows [first, first + rows).
  QuantisedRows From(int first, int rows) const {
    NUMOE_DCHECK(0 <= first && 0 <= rows && first + rows <= count);
    return {form, data + static_cast<size_t>(first) * stride, stride, rows};
  }
};

/// Whether fp32 rows of `cols` values already are rows of `form`, so that they can be read where they are.
constexpr bool IsPlainFp32(ActivationForm form, int cols) {
  return form == ActivationForm::kFloat || (form == ActivationForm::kFp32 && cols % layout::kStepCols == 0);
}
/// fp32 rows, `stride` floats apart, as rows of `form`. REQUIRES: IsPlainFp32 of it and their width.
QuantisedRows PlainRows(ActivationForm form, const float* x, int64_t stride, int count);

/// Writes `cols` values in `form`: a row, or whole steps of one. `out` holds rounded::RowBytes(form, cols);
/// a kFloat row's last bytes beyond `cols` stay as they are, those of every other form are written.
void QuantiseRow(Isa isa, ActivationForm form, const float* x, int cols, std::byte* out);
/// The same from BF16 values; only the INT8 and INT16 forms lose anything of them.
void QuantiseBf16Row(Isa isa, ActivationForm form, const uint16_t* x, int cols, std::byte* out);

/// Memory for `count` rows of `cols` values, one after the other, which are written and then read as rows().
struct QuantisedMemory {
  ActivationForm form = ActivationForm::kFloat;
  int cols = 0;
  int count = 0;
  std::byte* data = nullptr;  // bytes()

  static constexpr size_t Bytes(ActivationForm form, int cols, int count) {
    return static_cast<size_t>(count) * rounded::RowBytes(form, cols);
  }
  size_t bytes() const { return Bytes(form, cols, count); }
  size_t stride() const { return rounded::RowBytes(form, cols); }
  QuantisedRows rows() const { return {form, data, stride(), count}; }
  /// Where the step that begins with column `col` of a row is. REQUIRES: col % layout::kStepCols == 0.
  std::byte* At(int row, int col = 0) const {
    NUMOE_DCHECK(0 <= row && row < count && 0 <= col && col < cols && col % layout::kStepCols == 0);
    return data + static_cast<size_t>(row) * stride() + rounded::RowBytes(form, col);
  }
  /// Writes row `row`, or `width` values of it from column `col` on: whole steps, or the row's end.
  void Write(Isa isa, int row, const float* x) const { QuantiseRow(isa, form, x, cols, At(row)); }
  void WritePart(Isa isa, int row, int col, const float* x, int width) const {
    NUMOE_DCHECK(col + width == cols || (col + width < cols && width % layout::kStepCols == 0));
    QuantiseRow(isa, form, x, width, At(row, col));
  }
  /// Copies a row that is in this form and of this width already. A plain fp32 row may end with its values.
  void Copy(int row, const std::byte* from) const;
};

}  // namespace numoe
