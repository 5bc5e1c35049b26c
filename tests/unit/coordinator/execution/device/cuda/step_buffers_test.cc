// A step's tables on the device: buckets hold every step that fits them, padding is marked as padding, and
// the next kernels read the uploaded tables.
#include "coordinator/execution/device/cuda/step_buffers.h"

#include <random>

#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"

namespace numoe::execution::cuda {
namespace {

constexpr StepBounds kStepBuffersBounds{.rows = 40, .sequences = 5, .blocks_per_sequence = 11};

StepLayout RandomLayout(int rows, int sequences, int blocks, std::mt19937& random) {
  StepLayout layout{.blocks_per_sequence_max = blocks};
  for (int r = 0; r < rows; ++r) {
    layout.tokens.push_back(static_cast<int>(random() % 1000));
    layout.positions.push_back(static_cast<int>(random() % 160));
    layout.sequences.push_back(r % sequences);
  }
  for (int i = 0; i < sequences * blocks; ++i) layout.block_tables.push_back(static_cast<int>(random() % 99));
  layout.logit_rows = {rows / 2};
  return layout;
}

TEST(StepBucketTest, HoldsItsStepAndHasFewSizes) {
  StepLayout layout;
  for (int rows = 1; rows <= kStepBuffersBounds.rows; ++rows) {
    layout.tokens.assign(static_cast<size_t>(rows), 0);
    for (int blocks = 0; blocks <= kStepBuffersBounds.blocks_per_sequence; ++blocks) {
      layout.blocks_per_sequence_max = blocks;
      const StepBucket bucket = BucketFor(layout, kStepBuffersBounds);
      EXPECT_GE(bucket.rows, rows);
      EXPECT_LT(bucket.rows, rows + 8);
      EXPECT_LE(bucket.rows, kStepBuffersBounds.rows);
      EXPECT_GE(bucket.blocks_per_sequence, blocks);
      EXPECT_LE(bucket.blocks_per_sequence, kStepBuffersBounds.blocks_per_sequence);
      EXPECT_GE(bucket.blocks_per_sequence, 1);
    }
  }
}

// A captured graph depends on more than its sizes.
TEST(StepBuffersTest, StepsThatDeferExpertsHaveOtherBuckets) {
  StepLayout layout;
  layout.tokens.assign(4, 0);
  const StepBucket plain = BucketFor(layout, kStepBuffersBounds);
  layout.deferred_experts = 2;
  EXPECT_NE(BucketFor(layout, kStepBuffersBounds), plain);
}

TEST(StepBuffersTest, TheDeviceReadsTheTablesOfTheStep) {
  const auto runtime = NewSimulatedRuntime();
  auto buffers = StepBuffers::Create(kStepBuffersBounds, *runtime);
  ASSERT_TRUE(buffers.ok()) << buffers.status();
  const Stream stream = *runtime->NewStream();
  std::mt19937 random(4);
  for (const auto& [rows, sequences, blocks] : {std::tuple{40, 5, 11}, {3, 3, 2}, {9, 1, 0}, {1, 1, 5}}) {
    const StepLayout layout = RandomLayout(rows, sequences, blocks, random);
    const StepBucket bucket = BucketFor(layout, kStepBuffersBounds);
    buffers->Fill(layout, {.decode_positions = layout.positions}, bucket);
    ASSERT_EQ(buffers->handovers().size(), 1u);
    buffers->handovers()[0].first_call_id = 77;
    buffers->Upload(*runtime, stream);
    ASSERT_TRUE(runtime->Synchronize(stream).ok());
    const StepTables tables = buffers->tables();
    EXPECT_EQ(tables.blocks_per_sequence_max, bucket.blocks_per_sequence);
    for (int r = 0; r < bucket.rows; ++r) {
      const auto at = static_cast<size_t>(r);
      EXPECT_EQ(tables.positions[r], r < rows ? layout.positions[at] : -1);
      EXPECT_EQ(tables.tokens[r], r < rows ? layout.tokens[at] : -1);
      EXPECT_EQ(tables.sequences[r], r < rows ? layout.sequences[at] : 0);
    }
    for (int s = 0; s < sequences; ++s) {
      for (int b = 0; b < blocks; ++b) {
        EXPECT_EQ(tables.block_tables[s * bucket.blocks_per_sequence + b],
                  layout.block_tables[static_cast<size_t>(s * blocks + b)]);
      }
    }
    EXPECT_EQ(buffers->logit_rows()[0], layout.logit_rows[0]);
    EXPECT_EQ(buffers->device_handover()->first_call_id, 77u);
    EXPECT_EQ(buffers->device_handover()->rows, rows);
  }
}

// Each half has its own padding and hand-over; logit rows follow their tokens.
TEST(StepBuffersTest, TheSecondHalfFollowsTheFirst) {
  const auto runtime = NewSimulatedRuntime();
  auto buffers = StepBuffers::Create(kStepBuffersBounds, *runtime);
  ASSERT_TRUE(buffers.ok()) << buffers.status();
  const Stream stream = *runtime->NewStream();
  std::mt19937 random(5);
  constexpr int kRows = 16, kCut = 5;
  StepLayout layout = RandomLayout(kRows, 3, 2, random);
  layout.second_half = kCut;
  layout.logit_rows = {4, 5, 15};
  const StepBucket bucket = BucketFor(layout, kStepBuffersBounds);
  EXPECT_EQ(bucket.second_half, 8);
  EXPECT_EQ(bucket.rows, 24);
  StepLayout whole = layout;
  whole.second_half = 0;
  EXPECT_NE(BucketFor(whole, kStepBuffersBounds), bucket);
  buffers->Fill(layout, {.decode_positions = layout.positions}, bucket);
  ASSERT_EQ(buffers->handovers().size(), 2u);
  buffers->Upload(*runtime, stream);
  ASSERT_TRUE(runtime->Synchronize(stream).ok());
  const StepTables all = buffers->tables(), second = buffers->tables(8);
  for (int r = 0; r < bucket.rows; ++r) {
    const int token = r < kCut ? r : r < 8 || r - 8 >= kRows - kCut ? -1 : r - 8 + kCut;
    const auto at = static_cast<size_t>(std::max(token, 0));
    EXPECT_EQ(all.tokens[r], token < 0 ? -1 : layout.tokens[at]) << r;
    EXPECT_EQ(all.positions[r], token < 0 ? -1 : layout.positions[at]) << r;
    EXPECT_EQ(all.sequences[r], token < 0 ? 0 : layout.sequences[at]) << r;
    EXPECT_EQ(buffers->decode_positions()[r], all.positions[r]) << r;
  }
  EXPECT_EQ(second.tokens, all.tokens + 8);
  EXPECT_EQ(second.block_tables, all.block_tables);
  EXPECT_EQ(buffers->decode_positions(8), buffers->decode_positions() + 8);
  EXPECT_EQ(buffers->logit_rows()[0], 4);
  EXPECT_EQ(buffers->logit_rows()[1], 8);
  EXPECT_EQ(buffers->logit_rows()[2], 18);
  EXPECT_EQ(buffers->logit_rows()[3], -1);
  EXPECT_EQ(buffers->device_handover(0)->rows, kCut);
  EXPECT_EQ(buffers->device_handover(1)->rows, kRows - kCut);
}

}  // namespace
}  // namespace numoe::execution::cuda
