// The cost that AMX kernels may have, in instructions, so that a regression of their efficiency is found
// without the hardware.
//
// A product of two tiles (16 rows x 32 inputs x 16 outputs) keeps the tile unit busy for 16 cycles, in which
// a core may load one tile from its caches and retire 32 vector instructions of 512 bits, two a cycle.
// Decoding takes a number of those that depends on the format alone, not on the number of rows.
#include <map>
#include <random>
#include <vector>

#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/amx_emulator/instruction_counter.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

using amx_emulator::InstructionCounts;
using amx_emulator::Op;

constexpr int kBudgetRows = 32, kCols = 1024;

class TileBudgetTest : public ::testing::TestWithParam<WeightFormat> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    GTEST_SKIP() << "instructions of an optimised build only";
#endif
    if (!UseEmulator()) GTEST_SKIP() << "needs AVX-512, and no AMX: single steps go through the emulator";
    std::mt19937 random(1);
    packed_ = RandomPacked(GetParam(), kBudgetRows, kCols, random);
  }

  InstructionCounts Count(int tokens) const {
    const ActivationFormat x_format = ChooseActivationFormat(Isa::kAmx, GetParam(), tokens, Precision::kFast);
    const size_t stride = quantised::RowBytes(x_format, kCols);
    const std::vector<std::byte> rows(static_cast<size_t>(tokens) * stride);
    std::vector<float> y(static_cast<size_t>(tokens) * kBudgetRows);
    return amx_emulator::CountInstructions([&] {
      MatmulQuantised(Isa::kAmx, {.weight = packed_.matrix,
                                  .row_end = kBudgetRows,
                                  .x_format = x_format,
                                  .x = rows.data(),
                                  .x_stride = stride,
                                  .tokens = tokens,
                                  .y = y.data(),
                                  .y_stride = kBudgetRows});
    });
  }

  Packed packed_;
};

TEST_P(TileBudgetTest, OneLoadAProductAndFewStores) {
  for (const int tokens : {32, 64, 256}) {
    const InstructionCounts c = Count(tokens);
    const uint64_t products = static_cast<uint64_t>(tokens / 16) * (kBudgetRows / 16) * (kCols / 32);
    EXPECT_EQ(c.Tile(Op::kDotBf16), products) << tokens << " rows";
    // Sums of a block are stored in memory between pieces: 4 loads and stores for 64 products.
    EXPECT_LE(c.Tile(Op::kTileLoad), products + (tokens > 32 ? products / 16 : 0)) << tokens << " rows";
    EXPECT_LE(c.Tile(Op::kTileStore), products / 16) << tokens << " rows";
    EXPECT_EQ(c.Tile(Op::kLdTileCfg), 1u) << tokens << " rows";
    // Six instructions may retire in a cycle, so 96 during a product.
    if (tokens >= 64) {
      EXPECT_LE(c.all, 96 * products) << tokens << " rows";
    }
  }
}

TEST_P(TileBudgetTest, ARestOfRowsCostsNoFurtherTile) {
  const InstructionCounts c = Count(40);  // 16 + 16 and 8
  EXPECT_EQ(c.Tile(Op::kDotBf16), 3u * (kBudgetRows / 16) * (kCols / 32));
}

TEST_P(TileBudgetTest, WeightsAreDecodedOnceForAllRows) {
  const std::map<WeightFormat, uint64_t> budget = {
      {WeightFormat::kRawInt4, 256}, {WeightFormat::kInt4, 256},  {WeightFormat::kInt8, 266},
      {WeightFormat::kFp8, 132},     {WeightFormat::kBf16, 1},    {WeightFormat::kQ4K, 266},
      {WeightFormat::kQ4_0, 256},    {WeightFormat::kQ4_1, 266},  {WeightFormat::kIq4Nl, 256},
      {WeightFormat::kIq4Xs, 256},   {WeightFormat::kMxfp4, 256}, {WeightFormat::kQ6K, 338}};
  for (const int tokens : {16, 32, 256}) {
    EXPECT_LE(Count(tokens).vector * 1024 / (kBudgetRows * kCols), budget.at(GetParam()))
        << tokens << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, TileBudgetTest, ::testing::ValuesIn(AllFormats()),
                         [](const ::testing::TestParamInfo<WeightFormat>& format) {
                           return std::string(WeightFormatName(format.param));
                         });

}  // namespace
}  // namespace numoe
