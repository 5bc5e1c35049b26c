// Tests the memory that is planned for drawing tokens on a device.
#include "coordinator/execution/device/cuda/sampling_sizes.h"

#include "coordinator/execution/device/cuda/kernels/sampling.h"
#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

TEST(SamplingSizesTest, PartsOfTheTableDoNotOverlapAndAreAligned) {
  for (const int rows : {1, 3, 255, 4096}) {
    const SamplingSizes sizes = PlanSampling(rows, 1000, 64);
    EXPECT_GE(sizes.rules_offset(), static_cast<uint64_t>(rows) * sizeof(SamplingRow));
    EXPECT_GE(sizes.masks_offset(), sizes.rules_offset() + uint64_t{kSampleRulesMax} * sizeof(TokenRule));
    EXPECT_EQ(sizes.rules_offset() % 256, 0u);
    EXPECT_EQ(sizes.masks_offset() % 256, 0u);
    EXPECT_EQ(sizes.table_bytes(), sizes.masks_offset() + static_cast<uint64_t>(sizes.slots) * 16 * 8);
    EXPECT_EQ(sizes.mask_words(), 16);
    EXPECT_EQ(sizes.total(), sizes.table_bytes() + sizes.shaped_bytes() + sizes.sampled_bytes());
  }
}

TEST(SamplingSizesTest, ThereAreOnlyAsManySlotsAsCanBeUsed) {
  EXPECT_EQ(PlanSampling(10, 1000, 64).slots, 10);
  EXPECT_EQ(PlanSampling(100, 1000, 64).slots, 64);
  EXPECT_EQ(PlanSampling(1000, 1000, 1000).slots, kSampleSlotsMax);
  EXPECT_EQ(PlanSampling(1000, 163'840, 1000).shaped_bytes(), uint64_t{256} * 163'840 * 4) << "168 MB";
}

TEST(SamplingSizesTest, NoTokensAreDrawnIfTheVocabularyIsNotAMultipleOfFour) {
  for (const int vocab : {0, 999, 1001, 1002}) {
    const SamplingSizes none = PlanSampling(10, vocab, 64);
    EXPECT_EQ(none.rows, 0) << vocab;
    EXPECT_EQ(none.total(), 0u) << vocab;
  }
}

}  // namespace
}  // namespace numoe::execution::cuda
