// Compares ldmatrix, mma.sync and the conversion functions with the index formulas of the PTX manual.

#include "tests/cuda_host/matrix.h"

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "common/formats/bf16.h"
#include "common/formats/fp8.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/matrix_test_kernels.h"
#include "tests/cuda_host/schedule.h"

namespace numoe {
namespace {

constexpr int kLanes = 32;

TEST(MatrixTest, LoadsGiveEachLaneItsPair) {
  alignas(16) uint16_t rows[32 * 8];
  for (int i = 0; i < 32 * 8; ++i) rows[i] = static_cast<uint16_t>(i * 257);
  cuda_host::RunUnderAllSchedules([&] {
    std::vector<uint32_t> out(kLanes * 14);
    execution::cuda::LaunchLoads(rows, out.data());
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t* got = &out[static_cast<size_t>(lane) * 14];
      for (const int matrices : {1, 2, 4}) {
        for (int i = 0; i < matrices; ++i) {  // row lane / 4, columns 2 (lane % 4) and the next
          const uint16_t* at = rows + (i * 8 + lane / 4) * 8 + lane % 4 * 2;
          EXPECT_EQ(*got++, at[0] | uint32_t{at[1]} << 16) << "lane " << lane << " matrix " << i;
        }
      }
      for (const int matrices : {1, 2, 4}) {
        for (int i = 0; i < matrices; ++i) {  // the same for the transposed matrix
          const uint16_t* at = rows + (i * 8 + lane % 4 * 2) * 8 + lane / 4;
          EXPECT_EQ(*got++, at[0] | uint32_t{at[8]} << 16) << "lane " << lane << " matrix " << i;
        }
      }
    }
  });
}

TEST(MatrixTest, ConflictsOfLoadsAreCounted) {
  alignas(16) uint16_t rows[32 * 8] = {};
  std::vector<uint32_t> out(kLanes * 14);
  cuda_host::MatrixLoadConflicts() = {};
  execution::cuda::LaunchLoads(rows, out.data());
  EXPECT_EQ(cuda_host::MatrixLoadConflicts().loads, 14u);
  EXPECT_EQ(cuda_host::MatrixLoadConflicts().conflicts, 0u) << "rows of 16 bytes are contiguous";
}

TEST(MatrixDeathTest, MisalignedRowsStop) {
  alignas(16) uint16_t rows[32 * 8] = {};
  std::vector<uint32_t> out(kLanes * 14);
  EXPECT_DEATH(execution::cuda::LaunchMisalignedLoad(rows, out.data()),
               "ldmatrix: a row is not 16-byte aligned");
}

/// Random matrices, and the registers that hold their elements according to the PTX manual: for each lane,
/// element i of A is a[row][column] with the row and column below ("Matrix Fragments for mma.m16n8k16").
struct Fragments {
  static constexpr int kDepth = 16;
  int a[16][kDepth], b[kDepth][8];

  explicit Fragments(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> values(-100, 100);
    for (auto& row : a) {
      for (int& value : row) value = values(random);
    }
    for (auto& row : b) {
      for (int& value : row) value = values(random);
    }
  }

  void Fill(std::vector<uint32_t>& a_registers, std::vector<uint32_t>& b_registers) const {
    const auto half = [](int value, int i) {
      return uint32_t{EncodeBf16(static_cast<float>(value))} << i % 2 * 16;
    };
    a_registers.assign(kLanes * 4, 0);
    b_registers.assign(kLanes * 2, 0);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int group = lane >> 2;
      const int in_group = lane % 4;
      for (int i = 0; i < 8; ++i) {
        const int row = i / 2 % 2 == 0 ? group : group + 8;
        const int column = in_group * 2 + i % 2 + (i < 4 ? 0 : 8);
        a_registers[static_cast<size_t>(lane * 4 + i / 2)] |= half(a[row][column], i);
      }
      for (int i = 0; i < 4; ++i) {
        const int row = in_group * 2 + i % 2 + (i < 2 ? 0 : 8);
        b_registers[static_cast<size_t>(lane * 2 + i / 2)] |= half(b[row][group], i);
      }
    }
  }

  void Expect(const std::vector<float>& c) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
        const int column = lane % 4 * 2 + (i & 1);
        int sum = 1000 * lane + i;
        for (int k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
        EXPECT_EQ(c[static_cast<size_t>(lane * 4 + i)], static_cast<float>(sum)) << lane << " " << i;
      }
    }
  }
};

// Small integers are exact in BF16, and so are their sums in every order of summation.
TEST(MatrixTest, ProductsFollowTheManualsFragments) {
  std::vector<uint32_t> a, b;
  const Fragments fragments(1);
  fragments.Fill(a, b);
  cuda_host::RunUnderAllSchedules([&] {
    std::vector<float> c;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) c.push_back(static_cast<float>(1000 * lane + i));
    }
    execution::cuda::LaunchMmaBf16(a.data(), b.data(), c.data());
    fragments.Expect(c);
  });
}

TEST(MatrixTest, Fp8ConvertsExactly) {
  alignas(16) std::array<uint8_t, 256> codes;
  alignas(16) std::array<float, 256> values;
  alignas(16) std::array<uint16_t, 256> bf16;
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  execution::cuda::LaunchFp8(codes.data(), values.data(), bf16.data());
  for (size_t i = 0; i < 256; ++i) {
    const float expected = DecodeFp8(codes[i]);
    if (std::isnan(expected)) continue;  // the device reads NaN as +-480
    EXPECT_EQ(values[i], expected);
    EXPECT_EQ(DecodeBf16(bf16[i]), expected);
  }
}

TEST(MatrixTest, PairsMultiplyAndAddWithOneRounding) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint32_t> a(32), b(32), c(32), out(32);
    for (auto* values : {&a, &b, &c}) {
      for (uint32_t& pair : *values) {  // exponents near each other
        pair = (random() & 0x80ff80ffu) | 0x3f003f00u;
      }
    }
    execution::cuda::LaunchFmaBf16(a.data(), b.data(), c.data(), out.data());
    for (size_t i = 0; i < 32; ++i) {
      for (const int shift : {0, 16}) {
        const auto value = [&](uint32_t pair) {
          return double{DecodeBf16(static_cast<uint16_t>(pair >> shift))};
        };
        const double exact = value(a[i]) * value(b[i]) + value(c[i]);  // 24 bits: exact, in fp32, too
        EXPECT_EQ(static_cast<uint16_t>(out[i] >> shift), EncodeBf16(static_cast<float>(exact)));
      }
    }
  }
}

}  // namespace
}  // namespace numoe
