// Rows are equal to what the kernels' QuantiseRow writes, whether they are written whole, in parts, from BF16
// or copied.
#include "common/linear/quantised_rows.h"

#include <cstring>
#include <random>
#include <vector>

#include "absl/base/casts.h"
#include "common/formats/bf16.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

struct IsaFormat {
  Isa isa;
  ActivationFormat format;
};

// Every activation format that an instruction set of this machine chooses for some matrix; the scalar one has
// kFloat.
std::vector<IsaFormat> AllActivationFormats() {
  UseEmulator();
  std::vector<IsaFormat> all;
  for (const char* name : {"scalar", "avx2", "avx512", "amx"}) {
    if (!SelectIsa(name).ok()) continue;
    const Isa isa = *ParseIsa(name);
    std::vector<bool> seen(kActivationFormats);
    for (const WeightFormat format : AllFormats()) {
      for (const int tokens : {1, 8, 64}) {
        for (const Precision precision : {Precision::kFast, Precision::kBf16, Precision::kFloat}) {
          const ActivationFormat chosen = ChooseActivationFormat(isa, format, tokens, precision);
          if (seen[static_cast<size_t>(chosen)]) continue;
          seen[static_cast<size_t>(chosen)] = true;
          all.push_back({isa, chosen});
        }
      }
    }
  }
  return all;
}

// Memory for `rows` rows, filled with a byte by which the tests see what was not written.
std::vector<std::byte> Memory(ActivationFormat format, int cols, int rows) {
  return std::vector<std::byte>(QuantisedMemory::Bytes(format, cols, rows), std::byte{0xa5});
}

TEST(EffectivePrecisionTest, BatchInvariantCallsDoNotChooseAFormatByTheBatch) {
  EXPECT_EQ(EffectivePrecision(Precision::kFast, true), Precision::kBf16);
  EXPECT_EQ(EffectivePrecision(Precision::kFast, false), Precision::kFast);
  for (const bool batch_invariant : {false, true}) {
    EXPECT_EQ(EffectivePrecision(Precision::kBf16, batch_invariant), Precision::kBf16);
    EXPECT_EQ(EffectivePrecision(Precision::kFloat, batch_invariant), Precision::kFloat);
  }
}

TEST(QuantisedRowsTest, RowsAreAStrideApartAndCanBeNarrowed) {
  const std::vector<std::byte> memory(100);
  const QuantisedRows rows{ActivationFormat::kInt8, memory.data(), 10, 10};
  EXPECT_EQ(rows.Row(3), memory.data() + 30);
  const QuantisedRows some = rows.From(4, 2);
  EXPECT_EQ(some.format, ActivationFormat::kInt8);
  EXPECT_EQ(some.stride, 10u);
  EXPECT_EQ(some.count, 2);
  EXPECT_EQ(some.Row(1), rows.Row(5));
}

TEST(QuantisedRowsTest, Fp32RowsThatNeedNoWriting) {
  EXPECT_TRUE(IsPlainFp32(ActivationFormat::kFloat, 100));
  EXPECT_TRUE(IsPlainFp32(ActivationFormat::kFp32, 128));
  EXPECT_FALSE(IsPlainFp32(ActivationFormat::kFp32, 96));  // the last step's other inputs must be zero
  EXPECT_FALSE(IsPlainFp32(ActivationFormat::kFp32Fp8, 128));
  EXPECT_FALSE(IsPlainFp32(ActivationFormat::kBf16, 128));
  std::mt19937 random(1);
  const std::vector<float> x = RandomFloats(128, random);
  const QuantisedRows rows = PlainRows(ActivationFormat::kFp32, x.data(), 64, 2);
  EXPECT_EQ(rows.stride, 256u);
  for (const auto& [isa, format] : AllActivationFormats()) {
    if (!IsPlainFp32(format, 64)) continue;
    std::vector<std::byte> memory = Memory(format, 64, 1);
    QuantiseRow(isa, format, &x[64], 64, memory.data());
    EXPECT_EQ(std::memcmp(memory.data(), rows.Row(1), memory.size()), 0) << IsaName(isa);
  }
}

TEST(QuantisedMemoryTest, RowsWrittenWholeInPartsAndCopiedAreTheSame) {
  constexpr int kCols = 160, kRows = 3, kRow = 1;
  std::mt19937 random(2);
  const std::vector<float> x = RandomFloats(kCols, random);
  for (const auto& [isa, format] : AllActivationFormats()) {
    SCOPED_TRACE(fmt::format("{}, activation format {}", IsaName(isa), static_cast<int>(format)));
    std::vector<std::byte> whole = Memory(format, kCols, kRows), parts = whole, copied = whole;
    const QuantisedMemory rows{format, kCols, kRows, whole.data()};
    rows.Write(isa, kRow, x.data());
    const QuantisedMemory in_parts{format, kCols, kRows, parts.data()};
    in_parts.WritePart(isa, kRow, 64, &x[64], kCols - 64);
    in_parts.WritePart(isa, kRow, 0, x.data(), 64);
    EXPECT_EQ(parts, whole);
    QuantisedMemory{format, kCols, kRows, copied.data()}.Copy(kRow, rows.rows().Row(kRow));
    EXPECT_EQ(copied, whole);
    // The row is what QuantiseRow writes, and the rows before and after it are unchanged.
    std::vector<std::byte> expected = Memory(format, kCols, 1);
    const std::vector<std::byte> untouched = expected;
    QuantiseRow(isa, format, x.data(), kCols, expected.data());
    if (format == ActivationFormat::kFloat) {
      EXPECT_EQ(std::memcmp(expected.data(), x.data(), kCols * sizeof(float)), 0);
    }
    const auto row = [&](int r) {
      const std::byte* begin = rows.rows().Row(r);
      return std::vector<std::byte>(begin, begin + rows.stride());
    };
    EXPECT_EQ(row(kRow), expected);
    EXPECT_EQ(row(0), untouched);
    EXPECT_EQ(row(2), untouched);
  }
}

TEST(QuantiseBf16RowTest, EqualsTheRowOfTheSameValuesInFp32) {
  for (const int cols : {64, 70, 96}) {
    std::mt19937 random(3);
    std::vector<uint16_t> bf16;
    std::vector<float> wide;
    for (const float value : RandomFloats(static_cast<size_t>(cols), random)) {
      bf16.push_back(EncodeBf16(value));
      wide.push_back(absl::bit_cast<float>(static_cast<uint32_t>(bf16.back()) << 16));
    }
    for (const auto& [isa, format] : AllActivationFormats()) {
      std::vector<std::byte> narrow_row = Memory(format, cols, 1), wide_row = narrow_row;
      QuantiseBf16Row(isa, format, bf16.data(), cols, narrow_row.data());
      QuantiseRow(isa, format, wide.data(), cols, wide_row.data());
      EXPECT_EQ(narrow_row, wide_row)
          << IsaName(isa) << ", activation format " << static_cast<int>(format) << ", " << cols << " columns";
    }
  }
}

}  // namespace
}  // namespace numoe
