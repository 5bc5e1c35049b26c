#include "common/tensor/tensor.h"

#include <set>

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(DTypeTest, EverySafetensorsSpellingNamesATypeOfItsSize) {
  struct Row {
    std::string_view name;
    DType dtype;
    size_t bytes;
  };
  const Row rows[] = {
      {"BOOL", DType::kBool, 1},      {"U8", DType::kU8, 1},          {"I8", DType::kI8, 1},
      {"F8_E4M3", DType::kF8E4M3, 1}, {"F8_E5M2", DType::kF8E5M2, 1}, {"F8_E8M0", DType::kF8E8M0, 1},
      {"I16", DType::kI16, 2},        {"U16", DType::kU16, 2},        {"F16", DType::kF16, 2},
      {"BF16", DType::kBF16, 2},      {"I32", DType::kI32, 4},        {"U32", DType::kU32, 4},
      {"F32", DType::kF32, 4},        {"I64", DType::kI64, 8},        {"U64", DType::kU64, 8},
      {"F64", DType::kF64, 8}};
  std::set<DType> seen;
  for (const Row& row : rows) {
    EXPECT_EQ(ParseDType(row.name), row.dtype) << row.name;
    EXPECT_EQ(DTypeName(row.dtype), row.name);
    EXPECT_EQ(DTypeBytes(row.dtype), row.bytes) << row.name;
    seen.insert(row.dtype);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(DType::kF64) + 1) << "a type of the enum has no row here";
}

TEST(DTypeTest, OtherSpellingsAreNotRead) {
  for (const std::string_view name :
       {"", "bf16", "BF16 ", "F4", "F6_E2M3", "C64", "F8_E4M3FNUZ", "BFLOAT16"}) {
    EXPECT_EQ(ParseDType(name), std::nullopt) << name;
  }
}

TEST(ShapeTest, PrintsAsJson) {
  EXPECT_EQ(ShapeToString({}), "[]");
  EXPECT_EQ(ShapeToString({7}), "[7]");
  EXPECT_EQ(ShapeToString({7168, 2048}), "[7168, 2048]");
}

TEST(TensorViewTest, CountsElements) {
  EXPECT_EQ((TensorView{.dtype = DType::kF32, .shape = {}, .data = {}}.ElementCount()), 1)
      << "rank 0 is a scalar";
  EXPECT_EQ((TensorView{.dtype = DType::kF32, .shape = {3, 5, 7}, .data = {}}.ElementCount()), 105);
  EXPECT_EQ((TensorView{.dtype = DType::kF32, .shape = {3, 0, 7}, .data = {}}.ElementCount()), 0);
  EXPECT_EQ((TensorView{.dtype = DType::kI8, .shape = {1 << 20, 1 << 20}, .data = {}}.ElementCount()),
            int64_t{1} << 40);
}

}  // namespace
}  // namespace numoe
