// The device's cache has the same bytes at the same places as the CPU's, and gathering decodes them
// correctly.
#include "coordinator/execution/device/cuda/kernels/cache.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "common/formats/bf16.h"
#include "common/kernels/attention.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/paged_cache.h"

namespace numoe::execution::cuda {
namespace {

struct Written {
  int sequence;
  int position;
};

// A cache of 7 blocks in random order that two sequences share; every byte is 0xff at first.
struct SmallCache {
  explicit SmallCache(const PagedShape& shape) : bytes(MakeBytes(shape)), tables({5, 2, -1, 0, 6, 3}) {
    layer = MakeLayer(shape);
    layer.base = bytes.data();
  }
  static CacheLayer MakeLayer(const PagedShape& shape) {
    CacheLayer layer{.blocks = 7, .heads = shape.heads};
    layer.keys = MakeCacheForm(shape.fp8, shape.key_width, shape.plain_width);
    if (shape.value_width > 0) layer.values = MakeCacheForm(shape.fp8, shape.value_width, 0);
    return layer;
  }
  static size_t MakeBytes(const PagedShape& shape) {
    return static_cast<size_t>(CacheLayerBytes(MakeLayer(shape)));
  }
  int BlockOf(const Written& at) const {
    const int table[2][3] = {{5, 2, -1}, {0, 6, 3}};
    return table[at.sequence][at.position / 16];
  }

  CacheLayer layer;
  DeviceBuffer<std::byte> bytes;
  DeviceBuffer<int32_t> tables;
};

// Returns a row with ordinary and extreme values: zeros of both signs, values far below their group's
// largest, groups at both ends of fp32's range, a group with an infinity and one with a NaN.
std::vector<float> HardRow(int width, int kind, std::mt19937& random) {
  std::vector<float> row = ScaledFloats(static_cast<size_t>(width), 1.0f, random);
  for (size_t i = 0; i < row.size(); ++i) {
    if (kind == 1) row[i] = std::ldexp(row[i], static_cast<int>(random() % 60) - 40);
    if (kind == 2) row[i] = std::ldexp(row[i], i / 128 % 2 == 0 ? 125 : -140);
    if (i % 7 == 3) row[i] = i % 2 == 0 ? 0.0f : -0.0f;
  }
  if (kind == 3) row[5] = std::numeric_limits<float>::infinity();
  if (kind == 3) row[row.size() - 70] = std::numeric_limits<float>::quiet_NaN();
  if (kind == 4) std::fill(row.begin(), row.end(), 0.0f);
  return row;
}

// Writes the bytes that the CPU's cache holds for the row (cache_memory.h, NarrowRow).
void WriteAsCpu(std::vector<std::byte>& bytes, int64_t plane, const CacheForm& form, int block, int slot,
                const float* row) {
  std::byte* const rows = bytes.data() + plane + int64_t{block} * form.block_bytes;
  std::byte* const at = rows + slot * form.row_bytes;
  auto* const exponents = reinterpret_cast<uint8_t*>(rows + 16 * form.row_bytes) + slot * form.groups;
  if (form.coded > 0) NarrowRow(Isa::kScalar, row, form.coded, reinterpret_cast<uint8_t*>(at), exponents);
  for (int i = form.coded; i < form.width; ++i) {
    const uint16_t bits = EncodeBf16(row[i]);
    std::memcpy(at + cache_row::Offset(i, form.coded), &bits, sizeof(bits));
  }
}

class CacheTest : public testing::TestWithParam<PagedShape> {};

TEST_P(CacheTest, HoldsTheBytesThatTheCpuHolds) {
  const PagedShape& shape = GetParam();
  std::mt19937 random(3);
  const std::vector<Written> places = {{0, 0}, {1, 33}, {0, 17}, {1, 15}, {1, 16}, {0, 31}};
  const int width = shape.heads * (shape.key_width + shape.value_width);
  const int stride = width + 8;
  std::vector<float> source(places.size() * static_cast<size_t>(stride), 7.0f);
  std::vector<int32_t> positions, sequences;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::vector<float> row = HardRow(width, static_cast<int>(i), random);
    std::copy(row.begin(), row.end(), source.begin() + static_cast<int64_t>(i) * stride);
    positions.push_back(i == 3 ? -1 : places[i].position);  // one is padding
    sequences.push_back(places[i].sequence);
  }
  SmallCache cache(shape);
  std::vector<std::byte> wanted(cache.bytes.size(), std::byte{0xff});
  for (size_t i = 0; i < places.size(); ++i) {
    if (positions[i] < 0) continue;
    int64_t plane = 0;
    const float* row = source.data() + static_cast<int64_t>(i) * stride;
    for (int h = 0; h < shape.heads * (shape.value_width > 0 ? 2 : 1); ++h) {
      const CacheForm& form = h < shape.heads ? cache.layer.keys : cache.layer.values;
      WriteAsCpu(wanted, plane, form, cache.BlockOf(places[i]), positions[i] % 16, row);
      plane += int64_t{7} * form.block_bytes;
      row += form.width;
    }
  }
  DeviceBuffer<float> rows(source);
  DeviceBuffer<int32_t> positions_device(positions), sequences_device(sequences);
  RunUnderAllSchedules([&] {
    cache.bytes.Upload(std::vector<std::byte>(cache.bytes.size(), std::byte{0xff}));
    LaunchWriteKv(WriteKvArgs<float>{.cache = cache.layer,
                                     .tables = {.positions = positions_device.data(),
                                                .sequences = sequences_device.data(),
                                                .block_tables = cache.tables.data(),
                                                .blocks_per_sequence_max = 3},
                                     .source = rows.data(),
                                     .stride = stride,
                                     .rows = static_cast<int>(places.size())},
                  nullptr);
    const std::vector<std::byte> bytes = cache.bytes.Download();
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], wanted[i]) << "byte " << i;
  });
}

TEST_P(CacheTest, Bf16RowsAreStoredAsTheirFloats) {
  const PagedShape& shape = GetParam();
  std::mt19937 random(4);
  const int width = shape.heads * (shape.key_width + shape.value_width);
  const std::vector<Bf16> narrow =
      RoundAll(ScaledFloats(size_t{3} * static_cast<size_t>(width), 1.0f, random));
  std::vector<float> wide;
  for (const Bf16 value : narrow) wide.push_back(DecodeBf16(value.bits));
  DeviceBuffer<Bf16> narrow_device(narrow);
  DeviceBuffer<float> wide_device(wide);
  DeviceBuffer<int32_t> positions({0, 16, 18}), sequences({0, 1, 1});
  SmallCache one(shape), other(shape);
  const StepTables tables{.positions = positions.data(),
                          .sequences = sequences.data(),
                          .block_tables = one.tables.data(),
                          .blocks_per_sequence_max = 3};
  LaunchWriteKv(WriteKvArgs<Bf16>{one.layer, tables, narrow_device.data(), width, 3}, nullptr);
  LaunchWriteKv(WriteKvArgs<float>{other.layer, tables, wide_device.data(), width, 3}, nullptr);
  EXPECT_EQ(one.bytes.Download(), other.bytes.Download());
}

TEST_P(CacheTest, GatherDecodesTheBytes) {
  const PagedShape& shape = GetParam();
  std::mt19937 random(5);
  PagedCache cache(shape, {40, 23}, random);
  const int head = shape.heads - 1;
  constexpr int kBegin = 5, kEnd = 38;
  DeviceBuffer<Bf16> out(static_cast<size_t>((kEnd - kBegin) * shape.key_width));
  LaunchGatherKeys({.cache = cache.layer(),
                    .block_table = cache.TableOf(0),
                    .head = head,
                    .begin = kBegin,
                    .end = kEnd,
                    .out = out.data()},
                   nullptr);
  const std::vector<Bf16> rows = out.Download();
  for (int p = kBegin; p < kEnd; ++p) {
    const std::vector<double> wanted = cache.Key(0, p, head);
    for (int i = 0; i < shape.key_width; ++i) {
      ASSERT_EQ(Value(rows[static_cast<size_t>((p - kBegin) * shape.key_width + i)]),
                wanted[static_cast<size_t>(i)])
          << "position " << p << " channel " << i;
    }
  }
}

constexpr PagedShape kLatent{.key_width = 576, .plain_width = 64};
constexpr PagedShape kLatentFp8{.fp8 = true, .key_width = 576, .plain_width = 64};
constexpr PagedShape kNanoFp8{.fp8 = true, .key_width = 80, .plain_width = 16};
constexpr PagedShape kGrouped{.heads = 4, .key_width = 128, .value_width = 128};
constexpr PagedShape kGroupedFp8{.fp8 = true, .heads = 4, .key_width = 128, .value_width = 128};
constexpr PagedShape kGrouped96Fp8{.fp8 = true, .heads = 2, .key_width = 96, .value_width = 96};
INSTANTIATE_TEST_SUITE_P(Shapes, CacheTest,
                         testing::Values(kLatent, kLatentFp8, kNanoFp8, kGrouped, kGroupedFp8,
                                         kGrouped96Fp8));

// Norm, rotation and store in one kernel give the values of the plain formula in double, within the last
// rounding.
TEST(WriteLatentTest, NormsRotatesAndStores) {
  constexpr int kLatentWidth = 512, kRope = 64, kWidth = kLatentWidth + kRope;
  std::mt19937 random(6);
  const std::vector<Bf16> compressed = RoundAll(ScaledFloats(size_t{3} * kWidth, 0.7f, random));
  const std::vector<float> weight = ScaledFloats(kLatentWidth, 1.0f, random);
  std::vector<float> inverse(kRope / 2);
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = std::pow(50000.0f, -2.0f * static_cast<float>(i) / kRope);
  const std::vector<int32_t> positions = {33, -1, 17};
  DeviceBuffer<Bf16> compressed_device(compressed);
  DeviceBuffer<float> weight_device(weight), inverse_device(inverse);
  DeviceBuffer<int32_t> positions_device(positions), sequences({1, 0, 0});
  for (const bool interleaved : {true, false}) {
    SmallCache cache(kLatent);
    LaunchWriteLatent({.cache = cache.layer,
                       .tables = {.positions = positions_device.data(),
                                  .sequences = sequences.data(),
                                  .block_tables = cache.tables.data(),
                                  .blocks_per_sequence_max = 3},
                       .compressed = compressed_device.data(),
                       .stride = kWidth,
                       .rows = 3,
                       .latent = kLatentWidth,
                       .norm_weight = weight_device.data(),
                       .epsilon = 1e-5f,
                       .inverse_frequencies = inverse_device.data(),
                       .multiplier = 1.25f,
                       .interleaved = interleaved},
                      nullptr);
    const std::vector<std::byte> bytes = cache.bytes.Download();
    for (const size_t row : {size_t{0}, size_t{2}}) {
      const Bf16* const in = &compressed[row * kWidth];
      std::vector<double> wanted(kWidth);
      double squares = 0;
      for (int i = 0; i < kLatentWidth; ++i) squares += Value(in[i]) * Value(in[i]);
      for (int i = 0; i < kLatentWidth; ++i) {
        wanted[static_cast<size_t>(i)] =
            Value(in[i]) / std::sqrt(squares / kLatentWidth + 1e-5) * weight[static_cast<size_t>(i)];
      }
      for (int pair = 0; pair < kRope / 2; ++pair) {
        const int first = kLatentWidth + (interleaved ? 2 * pair : pair);
        const int second = interleaved ? first + 1 : first + kRope / 2;
        const double angle = double{1} * positions[row] * inverse[static_cast<size_t>(pair)];
        const double x0 = Value(in[first]), x1 = Value(in[second]);
        wanted[static_cast<size_t>(first)] = 1.25 * (x0 * std::cos(angle) - x1 * std::sin(angle));
        wanted[static_cast<size_t>(second)] = 1.25 * (x1 * std::cos(angle) + x0 * std::sin(angle));
      }
      const int block = cache.BlockOf({row == 0 ? 1 : 0, positions[row]});
      const auto* const stored = reinterpret_cast<const Bf16*>(
          bytes.data() + int64_t{block} * cache.layer.keys.block_bytes + positions[row] % 16 * kWidth * 2);
      for (int i = 0; i < kWidth; ++i) {
        const double value = wanted[static_cast<size_t>(i)];
        ASSERT_NEAR(Value(stored[i]), value, std::fabs(value) * 0x1.01p-8 + 1e-6)
            << "row " << row << " channel " << i;
      }
    }
  }
}

}  // namespace
}  // namespace numoe::execution::cuda
