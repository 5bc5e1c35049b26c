// Whole panels of weights that are held as they are stored are packed in registers, with the same bytes.
#include "common/kernels/panel_packing.h"

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/kernels/cpu_features.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

// Whole panels of whole steps are packed by other code than ragged ones. With one row more, the same panels
// must result.
TEST(PanelPackingTest, WholePanelsAreTheBytesOfRaggedOnes) {
  std::mt19937 random(20);
  for (const WeightFormat format : {WeightFormat::kRawInt4, WeightFormat::kBf16, WeightFormat::kFp8}) {
    const Stored stored = RandomStored(format, 256, 384, random);
    for (const Rectangle& r :
         {Rectangle{0, 96, 0, 384}, {64, 128, 128, 192}, {32, 32, 64, 64}, {0, 224, 320, 64}}) {
      const absl::StatusOr<Packed> whole = PackRectangle(format, stored.view, r);
      const absl::StatusOr<Packed> ragged =
          PackRectangle(format, stored.view, {r.row_begin, r.rows + 1, r.col_begin, r.cols});
      ASSERT_TRUE(whole.ok() && ragged.ok()) << whole.status() << ragged.status();
      EXPECT_EQ(std::memcmp(whole->matrix.data, ragged->matrix.data, PackedBytes(format, r.rows, r.cols)), 0)
          << WeightFormatName(format) << " at " << r.row_begin << ", " << r.col_begin;
    }
  }
}

// A shard does not depend on the machine that packed it: every instruction set's loops give the same bytes,
// including ties, zeros, groups of one magnitude and the smallest numbers.
TEST(PanelPackingTest, EveryInstructionSetPacksTheSameBytes) {
  const CpuFeatures own = DetectCpuFeatures();
  const absl::Cleanup restore = [&] { OverrideCpuFeaturesForTest(own); };
  std::vector<CpuFeatures> sets(1);
  if (own.avx2) sets.push_back({.avx2 = true});
  if (own.avx512) sets.push_back({.avx2 = true, .avx512 = true});
  if (sets.size() == 1) GTEST_SKIP() << "this CPU has one instruction set";
  std::mt19937 random(31);
  std::vector<float> weights = RandomFloats(96 * 1120, random);
  for (int i = 0; i < kPanelRows; ++i) {
    weights[i] = static_cast<float>(i % 15 - 7) * 0.5f;  // halfway between codes of int4
    weights[1120 + i] = 0;
    weights[2 * 1120 + i] = i % 2 == 0 ? 3.0f : -3.0f;
    weights[3 * 1120 + i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i);
    weights[4 * 1120 + i] = i == 7 ? std::numeric_limits<float>::max() : 1e30f;
  }
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(weights.data()),
                                          weights.size() * sizeof(float));
  const MatrixView plain{.format = MatrixFormat::kF32, .rows = 96, .cols = 1120, .data = bytes, .scales = {}};
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kInt8, WeightFormat::kRawInt4,
                                    WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kQ4K,
                                    WeightFormat::kQ4_0, WeightFormat::kMxfp4, WeightFormat::kQ6K}) {
    const bool quantised = format == WeightFormat::kInt4 || format == WeightFormat::kInt8;
    const Stored stored = RandomStored(format, 96, 1024, random);
    const Rectangle whole = quantised ? Rectangle{0, 96, 0, 1120} : Rectangle{0, 96, 0, 1024};
    for (const Rectangle& r : {whole, Rectangle{32, 33, 512, 288}}) {
      std::vector<std::byte> first;
      for (const CpuFeatures& set : sets) {
        OverrideCpuFeaturesForTest(set);
        const absl::StatusOr<Packed> packed = PackRectangle(format, quantised ? plain : stored.view, r);
        ASSERT_TRUE(packed.ok()) << packed.status();
        const size_t size = PackedBytes(format, r.rows, r.cols);
        if (first.empty()) first.assign(packed->matrix.data, packed->matrix.data + size);
        EXPECT_EQ(std::memcmp(first.data(), packed->matrix.data, size), 0)
            << WeightFormatName(format) << " " << r.rows << " rows, avx512 " << set.avx512;
      }
    }
  }
}

TEST(PanelPackingTest, OnlyWholePanelsOfTheStoredFormat) {
  std::mt19937 random(3);
  const Stored fp8 = RandomStored(WeightFormat::kFp8, 64, 128, random),
               bf16 = RandomStored(WeightFormat::kBf16, 64, 128, random);
  EXPECT_TRUE(KeepsStoredBytes(WeightFormat::kFp8, fp8.view, 64, 128));
  EXPECT_TRUE(KeepsStoredBytes(WeightFormat::kBf16, bf16.view, kPanelRows, 64));
  EXPECT_FALSE(KeepsStoredBytes(WeightFormat::kFp8, fp8.view, 63, 128)) << "a ragged panel";
  EXPECT_FALSE(KeepsStoredBytes(WeightFormat::kFp8, fp8.view, 64, 96)) << "half a step";
  EXPECT_FALSE(KeepsStoredBytes(WeightFormat::kBf16, fp8.view, 64, 128))
      << "another format than the stored one";
  EXPECT_FALSE(KeepsStoredBytes(WeightFormat::kInt8, bf16.view, 64, 128));
}

}  // namespace
}  // namespace numoe
