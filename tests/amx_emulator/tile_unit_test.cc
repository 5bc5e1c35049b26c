// Compares tiles with scalar models written from the reference's pseudocode, and tests every refusal.
#include "tests/amx_emulator/tile_unit.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace numoe::amx_emulator {
namespace {

struct TileConfig {
  uint8_t bytes[kConfigBytes] = {1};

  TileConfig& Tile(int tile, int rows, int row_bytes) {
    bytes[48 + tile] = static_cast<uint8_t>(rows);
    bytes[16 + 2 * tile] = static_cast<uint8_t>(row_bytes);
    bytes[17 + 2 * tile] = static_cast<uint8_t>(row_bytes >> 8);
    return *this;
  }
};

std::string Why(TileUnit::Refusal refusal) { return refusal == nullptr ? "" : refusal; }
uint64_t Address(const void* p) { return reinterpret_cast<uint64_t>(p); }

// Shape of C += A * B: A is m x k words of 4 bytes, B k x n words, C m x n words; tiles 0, 1, 2 are C, A, B.
struct DotShape {
  int m, k, n;
};
constexpr DotTiles kDot{.c = 0, .a = 1, .b = 2};

template <typename Word>
std::vector<Word> RunDot(DotShape s, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                         const std::vector<Word>& c, const auto& dot) {
  TileUnit unit;
  TileConfig config;
  config.Tile(0, s.m, 4 * s.n).Tile(1, s.m, 4 * s.k).Tile(2, s.k, 4 * s.n);
  EXPECT_EQ(Why(unit.LoadConfig(config.bytes)), "");
  EXPECT_EQ(Why(unit.Load(0, Address(c.data()), 4 * s.n)), "");
  EXPECT_EQ(Why(unit.Load(1, Address(a.data()), 4 * s.k)), "");
  EXPECT_EQ(Why(unit.Load(2, Address(b.data()), 4 * s.n)), "");
  EXPECT_EQ(Why(dot(unit)), "");
  std::vector<Word> out(c.size());
  EXPECT_EQ(Why(unit.Store(0, Address(out.data()), 4 * s.n)), "");
  return out;
}

std::vector<uint32_t> RandomWords(int count, std::mt19937& random) {
  std::vector<uint32_t> words(count);
  for (uint32_t& w : words) w = random();
  return words;
}

int64_t ByteOf(uint32_t word, int i, bool is_signed) {
  const auto byte = static_cast<uint8_t>(word >> (8 * i));
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

TEST(TileUnitTest, Int8ProductsWithEverySignednessWrap) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 80; ++trial) {
    const DotShape s =
        trial < 8 ? DotShape{16, 16, 16}
                  : DotShape{1 + static_cast<int>(random() % 16), 1 + static_cast<int>(random() % 16),
                             1 + static_cast<int>(random() % 16)};
    const bool a_signed = trial % 2 == 1;
    const bool b_signed = trial / 2 % 2 == 1;
    const auto a = RandomWords(s.m * s.k, random);
    const auto b = RandomWords(s.k * s.n, random);
    const auto c = RandomWords(s.m * s.n, random);  // any value of 32 bits, so that some sums wrap
    const auto got = RunDot(s, a, b, c, [&](TileUnit& u) { return u.DotInt8(kDot, a_signed, b_signed); });
    for (int m = 0; m < s.m; ++m) {
      for (int n = 0; n < s.n; ++n) {
        int64_t sum = c[m * s.n + n];
        for (int k = 0; k < s.k; ++k) {
          for (int i = 0; i < 4; ++i) {
            sum += ByteOf(a[m * s.k + k], i, a_signed) * ByteOf(b[k * s.n + n], i, b_signed);
          }
        }
        ASSERT_EQ(got[m * s.n + n], static_cast<uint32_t>(sum))
            << "trial " << trial << " at " << m << "," << n;
      }
    }
  }
}

float Flushed(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v; }
float Low(uint32_t word) { return Flushed(std::bit_cast<float>(word << 16)); }
float High(uint32_t word) { return Flushed(std::bit_cast<float>(word & 0xffff0000u)); }

float Bf16Model(DotShape s, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, float c, int m,
                int n) {
  float even = 0;
  float odd = 0;
  for (int k = 0; k < s.k; ++k) {
    even = Flushed(std::fma(Low(a[m * s.k + k]), Low(b[k * s.n + n]), even));
    odd = Flushed(std::fma(High(a[m * s.k + k]), High(b[k * s.n + n]), odd));
  }
  return Flushed(Flushed(c) + Flushed(even + odd));
}

// Pairs of finite BF16 values with exponents around `exponent` (biased).
std::vector<uint32_t> RandomPairs(int count, int exponent, std::mt19937& random) {
  std::vector<uint32_t> words(count);
  const auto half = [&] {
    const uint32_t e = static_cast<uint32_t>(std::max(0, exponent + static_cast<int>(random() % 9) - 4));
    return ((random() & 1u) << 15) | (e << 7) | (random() & 127u);
  };
  for (uint32_t& w : words) w = half() | (half() << 16);
  return words;
}

TEST(TileUnitTest, Bf16ProductsAreBitExact) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 120; ++trial) {
    const DotShape s =
        trial % 3 == 0 ? DotShape{16, 16, 16}
                       : DotShape{1 + static_cast<int>(random() % 16), 1 + static_cast<int>(random() % 16),
                                  1 + static_cast<int>(random() % 16)};
    const int exponent = trial % 2 == 0   ? 127
                         : trial % 4 == 1 ? 64
                                          : 2;  // ordinary; tiny products; denormal inputs
    const auto a = RandomPairs(s.m * s.k, exponent, random);
    const auto b = RandomPairs(s.k * s.n, exponent, random);
    std::vector<float> c(static_cast<size_t>(s.m * s.n));
    for (float& v : c)
      v = std::ldexp(static_cast<float>(random() % 2001) - 1000, exponent == 127 ? -5 : -130);
    const auto got = RunDot(s, a, b, c, [](TileUnit& u) { return u.DotBf16(kDot); });
    for (int m = 0; m < s.m; ++m) {
      for (int n = 0; n < s.n; ++n) {
        const float expected = Bf16Model(s, a, b, c[m * s.n + n], m, n);
        ASSERT_EQ(std::bit_cast<uint32_t>(got[m * s.n + n]), std::bit_cast<uint32_t>(expected))
            << "trial " << trial << " at " << m << "," << n << ": " << got[m * s.n + n] << " for "
            << expected;
      }
    }
  }
}

TEST(TileUnitTest, Bf16KnownValue) {
  // (1, 2) . (3, 4) + 5 = 16, in words of (low, high).
  const uint32_t one_two = 0x40003f80, three_four = 0x40804040;
  const auto got =
      RunDot<float>({1, 1, 1}, {one_two}, {three_four}, {5.0f}, [](TileUnit& u) { return u.DotBf16(kDot); });
  EXPECT_EQ(got[0], 16.0f);
}

TEST(TileUnitTest, LoadsZeroTheRestAndStoresOnlyTheTile) {
  TileUnit unit;
  TileConfig config;
  ASSERT_EQ(Why(unit.LoadConfig(config.Tile(3, 5, 12).bytes)), "");
  uint8_t in[5 * 20];
  for (int i = 0; i < 100; ++i) in[i] = static_cast<uint8_t>(i + 1);
  uint8_t out[5 * 16];
  std::memset(out, 0xee, sizeof out);
  ASSERT_EQ(Why(unit.Load(3, Address(in), 20)), "");
  ASSERT_EQ(Why(unit.Store(3, Address(out), 16)), "");
  for (int r = 0; r < 5; ++r) {
    for (int i = 0; i < 16; ++i) EXPECT_EQ(out[r * 16 + i], i < 12 ? in[r * 20 + i] : 0xee) << r << "," << i;
  }
  ASSERT_EQ(Why(unit.Zero(3)), "");
  ASSERT_EQ(Why(unit.Store(3, Address(out), 16)), "");
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[12], 0xee);
}

TEST(TileUnitTest, NegativeStrideRunsBackwards) {
  TileUnit unit;
  TileConfig config;
  ASSERT_EQ(Why(unit.LoadConfig(config.Tile(0, 2, 4).bytes)), "");
  const uint32_t in[2] = {7, 9};
  uint32_t out[2] = {};
  ASSERT_EQ(Why(unit.Load(0, Address(in + 1), static_cast<uint64_t>(-4))), "");
  ASSERT_EQ(Why(unit.Store(0, Address(out), 4)), "");
  EXPECT_EQ(out[0], 9u);
  EXPECT_EQ(out[1], 7u);
}

TEST(TileUnitTest, ConfigurationRoundTripsAndReleaseForgetsIt) {
  TileUnit unit;
  TileConfig config;
  config.Tile(0, 16, 64).Tile(7, 3, 20);
  ASSERT_EQ(Why(unit.LoadConfig(config.bytes)), "");
  uint8_t stored[kConfigBytes];
  unit.StoreConfig(stored);
  EXPECT_EQ(std::memcmp(stored, config.bytes, sizeof stored), 0);
  unit.Release();
  unit.StoreConfig(stored);
  const uint8_t zero[kConfigBytes] = {};
  EXPECT_EQ(std::memcmp(stored, zero, sizeof stored), 0);
  ASSERT_EQ(Why(unit.LoadConfig(config.bytes)), "");
  ASSERT_EQ(Why(unit.LoadConfig(zero)), "");
  EXPECT_EQ(Why(unit.Zero(0)), "tiles are not configured") << "palette 0 releases";
}

TEST(TileUnitTest, StartRowContinuesAnInterruptedLoad) {
  TileUnit unit;
  TileConfig config;
  config.Tile(0, 2, 4);
  config.bytes[1] = 1;
  ASSERT_EQ(Why(unit.LoadConfig(config.bytes)), "");
  const uint32_t in[2] = {7, 9};
  uint32_t out[2] = {};
  ASSERT_EQ(Why(unit.Load(0, Address(in), 4)), "");
  ASSERT_EQ(Why(unit.Store(0, Address(out), 4)), "");
  EXPECT_EQ(out[0], 0u) << "row 0 was loaded before the interruption";
  EXPECT_EQ(out[1], 9u);
  config.bytes[1] = 2;
  ASSERT_EQ(Why(unit.LoadConfig(config.bytes)), "");
  EXPECT_EQ(Why(unit.Load(0, Address(in), 4)), "start row is outside the tile");
}

TEST(TileUnitTest, RefusesBadConfigurations) {
  TileUnit unit;
  const auto why = [&](const TileConfig& config) { return Why(unit.LoadConfig(config.bytes)); };
  EXPECT_EQ(why(TileConfig().Tile(0, 17, 64)), "a tile has more than 16 rows");
  EXPECT_EQ(why(TileConfig().Tile(0, 16, 65)), "a tile has more than 64 bytes a row");
  EXPECT_EQ(why(TileConfig().Tile(0, 16, 0)), "a tile has rows or row bytes, but not both");
  EXPECT_EQ(why(TileConfig().Tile(0, 0, 64)), "a tile has rows or row bytes, but not both");
  EXPECT_EQ(why(TileConfig().Tile(8, 0, 64)), "row bytes of tiles 8 to 15 are not zero");
  EXPECT_EQ(why(TileConfig().Tile(8, 1, 0)), "rows of tiles 8 to 15 are not zero");
  TileConfig reserved;
  reserved.bytes[15] = 1;
  EXPECT_EQ(why(reserved), "reserved bytes 2 to 15 are not zero");
  TileConfig palette;
  palette.bytes[0] = 2;
  EXPECT_EQ(why(palette), "palette is not 0 or 1");
}

TEST(TileUnitTest, RefusesBadOperands) {
  TileUnit unit;
  uint32_t memory[256] = {};
  EXPECT_EQ(Why(unit.Zero(0)), "tiles are not configured");
  EXPECT_EQ(Why(unit.Store(0, Address(memory), 64)), "tiles are not configured");
  TileConfig config;
  config.Tile(0, 4, 16).Tile(1, 4, 32).Tile(2, 8, 16).Tile(3, 4, 10).Tile(4, 8, 12).Tile(5, 7, 16).Tile(6, 3,
                                                                                                        32);
  ASSERT_EQ(Why(unit.LoadConfig(config.bytes)), "");
  EXPECT_EQ(Why(unit.Load(7, Address(memory), 64)), "the tile is not in the configuration");
  EXPECT_EQ(Why(unit.Zero(8)), "tile number above 7");
  EXPECT_EQ(Why(unit.Zero(3)), "the tile's row bytes are not a multiple of 4");
  EXPECT_EQ(Why(unit.DotBf16({0, 1, 2})), "");
  EXPECT_EQ(Why(unit.DotBf16({0, 1, 1})), "the three tiles are not distinct");
  EXPECT_EQ(Why(unit.DotBf16({0, 1, 7})), "the tile is not in the configuration");
  EXPECT_EQ(Why(unit.DotBf16({0, 1, 4})), "destination and second source differ in row bytes");
  EXPECT_EQ(Why(unit.DotInt8({0, 6, 2}, true, true)), "destination and first source differ in rows");
  EXPECT_EQ(Why(unit.DotInt8({0, 1, 5}, true, true)),
            "first source's row bytes / 4 are not the second source's rows");
}

}  // namespace
}  // namespace numoe::amx_emulator
