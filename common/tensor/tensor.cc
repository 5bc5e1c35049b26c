#include "common/tensor/tensor.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace numoe {
namespace {

struct DTypeRow {
  DType dtype;
  size_t bytes;
  std::string_view name;
};

constexpr std::array kRows = {
    DTypeRow{DType::kBool, 1, "BOOL"},      DTypeRow{DType::kU8, 1, "U8"},
    DTypeRow{DType::kI8, 1, "I8"},          DTypeRow{DType::kF8E4M3, 1, "F8_E4M3"},
    DTypeRow{DType::kF8E5M2, 1, "F8_E5M2"}, DTypeRow{DType::kF8E8M0, 1, "F8_E8M0"},
    DTypeRow{DType::kI16, 2, "I16"},        DTypeRow{DType::kU16, 2, "U16"},
    DTypeRow{DType::kF16, 2, "F16"},        DTypeRow{DType::kBF16, 2, "BF16"},
    DTypeRow{DType::kI32, 4, "I32"},        DTypeRow{DType::kU32, 4, "U32"},
    DTypeRow{DType::kF32, 4, "F32"},        DTypeRow{DType::kI64, 8, "I64"},
    DTypeRow{DType::kU64, 8, "U64"},        DTypeRow{DType::kF64, 8, "F64"},
};

const DTypeRow& RowOf(DType dtype) {
  const DTypeRow& row = kRows[static_cast<size_t>(dtype)];
  NUMOE_DCHECK(row.dtype == dtype) << "the table must list the types in the order of the enum";
  return row;
}

}  // namespace

size_t DTypeBytes(DType dtype) { return RowOf(dtype).bytes; }
std::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeRow& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string ShapeToString(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

int64_t TensorView::ElementCount() const {
  int64_t count = 1;
  for (int64_t dim : shape) {
    NUMOE_DCHECK_GE(dim, 0);
    count *= dim;
  }
  return count;
}

}  // namespace numoe
