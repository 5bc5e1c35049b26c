// Quantised activations: rows of one ActivationFormat, made from fp32 or BF16 rows.
//
// A row is quantised once, however many matrices it is multiplied by. ChooseActivationFormat (kernels.h)
// chooses the format by the instruction set, the weights' format, the number of rows, and EffectivePrecision.
// ActivationFormat::kFloat is one of the formats: its rows are plain fp32, so that callers need only one
// path. Values that own nothing; functions are thread-safe if they write different rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"

namespace numoe {

/// Returns the precision of a product's activations. A batch-invariant call must give each token the same
/// bits whatever else is in the batch, so it does not use a format that is chosen by the number of tokens.
constexpr Precision EffectivePrecision(Precision precision, bool batch_invariant) {
  return batch_invariant && precision == Precision::kFast ? Precision::kBf16 : precision;
}

/// `count` rows to be read, `stride` bytes apart.
struct QuantisedRows {
  ActivationFormat format = ActivationFormat::kFloat;
  const std::byte* data = nullptr;
  size_t stride = 0;  // bytes
  int count = 0;

  const std::byte* Row(int row) const {
    NUMOE_DCHECK(0 <= row && row < count) << "row " << row << " of " << count;
    return data + static_cast<size_t>(row) * stride;
  }
  /// Returns rows [first, first + rows).
  QuantisedRows From(int first, int rows) const {
    NUMOE_DCHECK(0 <= first && 0 <= rows && first + rows <= count);
    return {format, data + static_cast<size_t>(first) * stride, stride, rows};
  }
};

/// Returns whether fp32 rows of `cols` values already are rows of `format`, so that they can be read in
/// place.
constexpr bool IsPlainFp32(ActivationFormat format, int cols) {
  return format == ActivationFormat::kFloat ||
         (format == ActivationFormat::kFp32 && cols % layout::kStepCols == 0);
}
/// Returns fp32 rows, `stride` floats apart, as rows of `format`. REQUIRES: IsPlainFp32 for this format and
/// the rows' width.
QuantisedRows PlainRows(ActivationFormat format, const float* x, int64_t stride, int count);

/// Does what QuantiseRow (kernels.h) does, from BF16 values, which only the INT8 and INT16 formats round.
void QuantiseBf16Row(Isa isa, ActivationFormat format, const uint16_t* x, int cols, std::byte* out);

/// Memory for `count` rows of `cols` values, one after the other, which are written and then read as rows().
struct QuantisedMemory {
  ActivationFormat format = ActivationFormat::kFloat;
  int cols = 0;
  int count = 0;
  std::byte* data = nullptr;  // bytes()

  static constexpr size_t Bytes(ActivationFormat format, int cols, int count) {
    return static_cast<size_t>(count) * quantised::RowBytes(format, cols);
  }
  size_t bytes() const { return Bytes(format, cols, count); }
  size_t stride() const { return quantised::RowBytes(format, cols); }
  QuantisedRows rows() const { return {format, data, stride(), count}; }
  /// Returns where the step that begins with column `col` of a row is. REQUIRES: col % layout::kStepCols ==
  /// 0.
  std::byte* At(int row, int col = 0) const {
    NUMOE_DCHECK(0 <= row && row < count && 0 <= col && col < cols && col % layout::kStepCols == 0);
    return data + static_cast<size_t>(row) * stride() + quantised::RowBytes(format, col);
  }
  /// Write row `row`, or `width` values of it beginning with column `col`: whole steps, or up to the row's
  /// end.
  void Write(Isa isa, int row, const float* x) const { QuantiseRow(isa, format, x, cols, At(row)); }
  void WritePart(Isa isa, int row, int col, const float* x, int width) const {
    NUMOE_DCHECK(col + width == cols || (col + width < cols && width % layout::kStepCols == 0));
    QuantiseRow(isa, format, x, width, At(row, col));
  }
  /// Copies a row that has this format and width already. A plain fp32 row may end after its last value.
  void Copy(int row, const std::byte* from) const;
};

}  // namespace numoe
