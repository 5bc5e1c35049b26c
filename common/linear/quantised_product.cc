#include "common/linear/quantised_product.h"

namespace numoe {

void Multiply(Isa isa, const QuantisedProduct& p) {
  NUMOE_DCHECK(p.x.data != nullptr || p.x.count == 0);
  if (p.x.format == ActivationFormat::kFloat) {
    NUMOE_DCHECK(p.x.stride % sizeof(float) == 0);
    Matmul(isa, {.weight = p.weight,
                 .row_begin = p.row_begin,
                 .row_end = p.row_end,
                 .x = reinterpret_cast<const float*>(p.x.data),
                 .x_stride = static_cast<int64_t>(p.x.stride / sizeof(float)),
                 .tokens = p.x.count,
                 .y = p.y,
                 .y_stride = p.y_stride});
    return;
  }
  MatmulQuantised(isa, {.weight = p.weight,
                        .row_begin = p.row_begin,
                        .row_end = p.row_end,
                        .x_format = p.x.format,
                        .x = p.x.data,
                        .x_stride = p.x.stride,
                        .tokens = p.x.count,
                        .y = p.y,
                        .y_stride = p.y_stride,
                        .next = p.next});
}

size_t PanelBytes(const PackedMatrix& matrix) { return layout::PanelBytes(matrix.format, matrix.cols); }

size_t MatrixBytes(const PackedMatrix& matrix) {
  return PanelBytes(matrix) * static_cast<size_t>(layout::Panels(matrix.rows));
}

const std::byte* PanelAt(const PackedMatrix& matrix, int row) {
  NUMOE_DCHECK(0 <= row && row < matrix.rows && row % kPanelRows == 0);
  return matrix.data + static_cast<size_t>(row / kPanelRows) * PanelBytes(matrix);
}

}  // namespace numoe
