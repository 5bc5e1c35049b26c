// Compares the counting sort of (token, expert) pairs and the combination with the plain definition: one
// block and several, padding rows, experts of the workers, every schedule.
#include "coordinator/execution/device/cuda/kernels/permute.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "common/formats/bf16.h"
#include "gtest/gtest.h"
#include "tests/support/device_buffer.h"
#include "tests/unit/coordinator/execution/device/cuda/dense_reference.h"

namespace numoe::execution::cuda {
namespace {

// Returns the expert ids of `rows` tokens, k different ones for each; every `padding`th row is padding.
std::vector<int32_t> RandomRoutes(int rows, int k, int experts, int padding, std::mt19937& random) {
  std::vector<int32_t> ids, all(static_cast<size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  for (int row = 0; row < rows; ++row) {
    std::shuffle(all.begin(), all.end(), random);
    const bool empty = padding > 0 && row % padding == 0;
    for (int j = 0; j < k; ++j) ids.push_back(empty ? -1 : all[static_cast<size_t>(j)]);
  }
  return ids;
}

std::vector<int32_t> RandomSlots(int experts, int slots, std::mt19937& random) {
  std::vector<int32_t> table(static_cast<size_t>(experts), -1);
  std::iota(table.begin(), table.begin() + slots, 0);
  std::shuffle(table.begin(), table.end(), random);
  return table;
}

struct Shape {
  int rows, k, experts, slots, piece_rows, padding;
};

void CheckPermute(const Shape& s, std::mt19937& random) {
  const int pairs = s.rows * s.k;
  const std::vector<int32_t> ids = RandomRoutes(s.rows, s.k, s.experts, s.padding, random);
  const std::vector<int32_t> table = RandomSlots(s.experts, s.slots, random);
  const DeviceBuffer<int32_t> ids_device(ids), table_device(table);
  std::vector<std::vector<int>> of_slot(static_cast<size_t>(s.slots));
  for (int p = 0; p < pairs; ++p) {
    const int id = ids[static_cast<size_t>(p)];
    if (id >= 0 && table[static_cast<size_t>(id)] >= 0)
      of_slot[static_cast<size_t>(table[static_cast<size_t>(id)])].push_back(p);
  }
  const auto count = static_cast<size_t>(pairs);
  const int work_max = PermuteWorkMax(pairs, s.slots, s.piece_rows);
  RunUnderAllSchedules([&] {
    DeviceBuffer<int32_t> counts(PermuteScratchInts(pairs, s.slots)), tokens(count), places(count),
        left(count), work_count(1);
    DeviceBuffer<GemmWork> work(static_cast<size_t>(work_max));
    LaunchPermute({.experts = ids_device.data(),
                   .slots = table_device.data(),
                   .rows = s.rows,
                   .k = s.k,
                   .slot_count = s.slots,
                   .piece_rows = s.piece_rows,
                   .counts = counts.data(),
                   .tokens = tokens.data(),
                   .places = places.data(),
                   .left = left.data(),
                   .work = work.data(),
                   .work_count = work_count.data()},
                  nullptr);
    std::vector<int32_t> expected_places(count, -1), expected_left = ids;
    const std::vector<int32_t> got_tokens = tokens.Download();
    const std::vector<GemmWork> got_work = work.Download();
    int at = 0, piece = 0;
    const int pieces = work_count.Download()[0];
    ASSERT_LE(pieces, work_max);
    for (int slot = 0; slot < s.slots; ++slot) {
      const auto& run = of_slot[static_cast<size_t>(slot)];
      for (int i = 0; i < static_cast<int>(run.size()); ++i, ++at) {
        const int p = run[static_cast<size_t>(i)];
        expected_places[static_cast<size_t>(p)] = at;
        expected_left[static_cast<size_t>(p)] = -1;
        ASSERT_EQ(got_tokens[static_cast<size_t>(at)], p / s.k) << "sorted pair " << at;
        if (i % s.piece_rows != 0) continue;
        ASSERT_LT(piece, pieces);
        const GemmWork& w = got_work[static_cast<size_t>(piece++)];
        EXPECT_EQ(w.slot, slot);
        EXPECT_EQ(w.first, at);
        EXPECT_EQ(w.count, std::min(s.piece_rows, static_cast<int>(run.size()) - i));
      }
    }
    EXPECT_EQ(piece, pieces);
    EXPECT_EQ(places.Download(), expected_places);
    EXPECT_EQ(left.Download(), expected_left);
  });
}

TEST(PermuteTest, AFewPairsAreOneBlock) {
  std::mt19937 random(1);
  CheckPermute({1, 8, 384, 4, 8, 0}, random);
  CheckPermute({5, 3, 7, 7, 8, 2}, random);        // all experts are on the device
  CheckPermute({128, 8, 384, 384, 8, 5}, random);  // exactly one block
  CheckPermute({100, 8, 16, 1, 16, 3}, random);    // one busy expert: many pieces
  CheckPermute({3, 2, 600, 512, 8, 1}, random);    // only padding
}

TEST(PermuteTest, ManyPairsAreSeveralBlocks) {
  std::mt19937 random(2);
  CheckPermute({129, 8, 384, 100, 8, 7}, random);
  CheckPermute({700, 8, 48, 48, 128, 11}, random);
  CheckPermute({1111, 3, 520, 512, 32, 0}, random);
}

TEST(PermuteTest, CombineAddsThisDevicesShare) {
  std::mt19937 random(3);
  const int rows = 9, k = 4, hidden = 1160;
  const std::vector<float> weights = RandomFloats(rows * k, random);
  const std::vector<float> residual = RandomFloats(rows * hidden, random);
  std::vector<int32_t> places(rows * k);
  int at = 0;
  for (int p = 0; p < rows * k; ++p) places[static_cast<size_t>(p)] = p / k == 4 || p % 3 == 0 ? -1 : at++;
  std::vector<Bf16> outputs = RandomBf16(static_cast<size_t>(at * hidden), random);
  const DeviceBuffer<Bf16> outputs_device(outputs);
  const DeviceBuffer<int32_t> places_device(places);
  const DeviceBuffer<float> weights_device(weights);
  RunUnderAllSchedules([&] {
    DeviceBuffer<float> sums(residual);
    LaunchCombine({.outputs = outputs_device.data(),
                   .places = places_device.data(),
                   .weights = weights_device.data(),
                   .rows = rows,
                   .k = k,
                   .hidden = hidden,
                   .residual = sums.data()},
                  nullptr);
    const std::vector<float> got = sums.Download();
    for (int i = 0; i < rows * hidden; ++i) {
      double sum = residual[static_cast<size_t>(i)], magnitude = std::fabs(sum);
      for (int j = 0; j < k; ++j) {
        const int place = places[static_cast<size_t>(i / hidden * k + j)];
        if (place < 0) continue;
        const double term = static_cast<double>(weights[static_cast<size_t>(i / hidden * k + j)]) *
                            DecodeBf16(outputs[static_cast<size_t>(place * hidden + i % hidden)].bits);
        sum += term, magnitude += std::fabs(term);
      }
      ASSERT_NEAR(got[static_cast<size_t>(i)], sum, magnitude * (k + 2) * 0x1p-24) << i;
      if (i / hidden == 4) {  // no expert of this token is on the device
        ASSERT_EQ(got[static_cast<size_t>(i)], residual[static_cast<size_t>(i)]);
      }
    }
  });
}

}  // namespace
}  // namespace numoe::execution::cuda
