// Tests the division of decode attention into pieces, and the merging of their results.
#include "coordinator/execution/device/cuda/kernels/attention_plan.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/paged_cache.h"

namespace numoe::execution::cuda {
namespace {

struct Lists {
  std::vector<int32_t> worker_first;
  std::vector<int32_t> row_first;
  std::vector<DecodePiece> pieces;
};

Lists MakeLists(const DecodeShape& shape, const std::vector<int32_t>& positions) {
  DeviceBuffer<std::byte> memory(static_cast<size_t>(DecodeListBytes(shape)));
  DeviceBuffer<int32_t> device(positions);
  const DecodeLists lists = PlaceLists(shape, memory.data());
  LaunchPlanPieces({.shape = shape, .lists = lists, .positions = device.data()}, nullptr);
  const std::vector<std::byte> bytes = memory.Download();
  const auto at = [&](const void* place) {
    return bytes.data() + (static_cast<const std::byte*>(place) - memory.data());
  };
  const auto* workers = reinterpret_cast<const int32_t*>(at(lists.worker_first));
  const auto* rows = reinterpret_cast<const int32_t*>(at(lists.row_first));
  const auto* pieces = reinterpret_cast<const DecodePiece*>(at(lists.pieces));
  return {{workers, workers + shape.workers + 1},
          {rows, rows + shape.rows + 1},
          {pieces, pieces + rows[shape.rows]}};
}

void ExpectWhole(const DecodeShape& shape, const std::vector<int32_t>& positions, const Lists& lists) {
  ASSERT_LE(static_cast<int>(lists.pieces.size()), shape.pieces_max);
  ASSERT_EQ(lists.worker_first.front(), 0);
  ASSERT_EQ(lists.worker_first.back(), static_cast<int>(lists.pieces.size()));
  for (size_t w = 0; w + 1 < lists.worker_first.size(); ++w)
    ASSERT_LE(lists.worker_first[w], lists.worker_first[w + 1]);
  for (int row = 0; row < shape.rows; ++row) {
    int covered = 0;
    for (int p = lists.row_first[static_cast<size_t>(row)]; p < lists.row_first[static_cast<size_t>(row) + 1];
         ++p) {
      const DecodePiece& piece = lists.pieces[static_cast<size_t>(p)];
      ASSERT_EQ(piece.row, row);
      ASSERT_EQ(piece.begin, covered);
      ASSERT_EQ(piece.begin % shape.tile, 0);
      ASSERT_GT(piece.end, piece.begin);
      covered = piece.end;
    }
    ASSERT_EQ(covered, positions[static_cast<size_t>(row)] + 1) << "row " << row;
  }
}

TEST(AttentionPlanTest, PiecesCoverEveryRowAndSharesAreEqual) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int rows = 1 + static_cast<int>(random() % 40);
    std::vector<int32_t> positions;
    for (int r = 0; r < rows; ++r)
      positions.push_back(static_cast<int>(random() % (r % 5 == 0 ? 20000 : 300)) - 1);
    const int workers = 1 + static_cast<int>(random() % 140);
    const int tile = round % 2 == 0 ? 64 : 16;
    const DecodeShape shape =
        PlanDecode({.rows = rows, .context_max = 20000, .workers_per_group = workers, .tile = tile});
    const Lists lists = MakeLists(shape, positions);
    ExpectWhole(shape, positions, lists);
    int64_t tiles = 0;
    for (const int32_t position : positions) tiles += (position + tile) / tile;
    for (int w = 0; w < workers; ++w) {
      int64_t taken = 0;
      for (int p = lists.worker_first[static_cast<size_t>(w)];
           p < lists.worker_first[static_cast<size_t>(w) + 1]; ++p) {
        taken += (lists.pieces[static_cast<size_t>(p)].end - lists.pieces[static_cast<size_t>(p)].begin +
                  tile - 1) /
                 tile;
      }
      ASSERT_LE(taken, (tiles + workers - 1) / workers);
    }
  }
}

TEST(AttentionPlanTest, ExactPiecesDependOnTheirRowOnly) {
  const auto pieces_of = [](const std::vector<int32_t>& positions, int workers, size_t row) {
    const DecodeShape shape = PlanDecode({.rows = static_cast<int>(positions.size()),
                                          .context_max = 131072,
                                          .workers_per_group = workers,
                                          .tile = 64,
                                          .exact = true});
    const Lists lists = MakeLists(shape, positions);
    ExpectWhole(shape, positions, lists);
    std::vector<int> ends;
    for (int p = lists.row_first[row]; p < lists.row_first[row + 1]; ++p)
      ends.push_back(lists.pieces[static_cast<size_t>(p)].end);
    return ends;
  };
  const std::vector<int> alone = pieces_of({9000}, 132, 0);
  EXPECT_EQ(alone, (std::vector<int>{2048, 4096, 6144, 8192, 9001}));
  EXPECT_EQ(pieces_of({5, 131071, -1, 9000, 100}, 7, 3), alone);
}

TEST(AttentionPlanTest, LongestRowFitsTheLists) {
  const DecodeShape shape =
      PlanDecode({.rows = 3, .context_max = 100000, .workers_per_group = 4, .tile = 64, .exact = true});
  ExpectWhole(shape, {99999, 99999, 99999}, MakeLists(shape, {99999, 99999, 99999}));
}

TEST(MergePartsTest, AddsPartsByTheirWeights) {
  constexpr int kHeads = 3, kWidth = 80, kRows = 4, kParts = 11;
  std::mt19937 random(2);
  const DecodeShape shape{.rows = kRows, .workers = 1, .tile = 16, .pieces_max = kParts + 2};
  // Row 0 has eleven pieces; row 1 has none; row 2 has one, finished by its worker; row 3, the last one, has
  // none.
  DeviceBuffer<int32_t> row_first({0, kParts, kParts, kParts + 1, kParts + 1});
  const std::vector<float> sums = ScaledFloats(size_t{kParts + 2} * kHeads * kWidth, 1.0f, random);
  std::vector<float> maxima = ScaledFloats(size_t{kParts + 2} * kHeads, 5.0f, random);
  std::vector<float> totals = ScaledFloats(size_t{kParts + 2} * kHeads, 1.0f, random);
  for (float& total : totals) total = 1 + std::fabs(total);
  DeviceBuffer<float> sums_device(sums), maxima_device(maxima), totals_device(totals);
  const std::vector<Bf16> before(size_t{kRows} * kHeads * kWidth, Bf16{0x4242});
  DeviceBuffer<Bf16> out(before);
  RunUnderAllSchedules([&] {
    out.Upload(before);
    LaunchMergeParts({.shape = shape,
                      .lists = {.row_first = row_first.data()},
                      .parts = {sums_device.data(), maxima_device.data(), totals_device.data()},
                      .heads = kHeads,
                      .width = kWidth,
                      .out = out.data()},
                     nullptr);
    const std::vector<Bf16> merged = out.Download();
    for (size_t i = 0; i < merged.size(); ++i) {
      const size_t row = i / (kHeads * kWidth), head = i / kWidth % kHeads, column = i % kWidth;
      if (row != 0) {  // a row without pieces becomes zero, one that its worker finished does not change
        ASSERT_EQ(merged[i].bits, row == 2 ? 0x4242 : 0) << "row " << row;
        continue;
      }
      double sum = 0, total = 0, magnitude = 0;
      for (size_t p = 0; p < kParts; ++p) {
        const double weight = std::exp2(double{maxima[p * kHeads + head]});
        sum += weight * sums[(p * kHeads + head) * kWidth + column];
        magnitude += weight * std::fabs(sums[(p * kHeads + head) * kWidth + column]);
        total += weight * totals[p * kHeads + head];
      }
      ASSERT_NEAR(Value(merged[i]), sum / total,
                  std::fabs(sum / total) * 0x1p-8 + magnitude / total * 0x1p-20);
    }
  });
}

}  // namespace
}  // namespace numoe::execution::cuda
