// The bytes of cache blocks are those of the header's table.
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

TEST(CacheFormTest, SizesOfTheHeadersTable) {
  EXPECT_EQ(MakeCacheForm(false, 576, 64).row_bytes, 1152);
  EXPECT_EQ(MakeCacheForm(false, 576, 64).block_bytes, 18432);
  EXPECT_EQ(MakeCacheForm(true, 576, 64).row_bytes, 640);
  EXPECT_EQ(MakeCacheForm(true, 576, 64).block_bytes, 10304);
  EXPECT_EQ(MakeCacheForm(true, 128, 0).block_bytes, 2112);
}

TEST(CacheFormTest, BlocksAreWholeLinesAndALayerIsAllOfThem) {
  for (const bool fp8 : {false, true}) {
    for (const int width : {32, 80, 96, 128, 576}) {
      const CacheForm form = MakeCacheForm(fp8, width, 16);
      EXPECT_EQ(form.block_bytes % 64, 0);
      EXPECT_GE(form.block_bytes, kCacheBlockTokens * (form.row_bytes + form.groups));
      EXPECT_EQ(form.coded, fp8 ? width - 16 : 0);
      EXPECT_EQ(form.groups > 0, fp8) << "only FP8 codes have exponents";
    }
  }
  CacheLayer layer;
  layer.blocks = 1 << 20;
  layer.heads = 8;
  layer.keys = MakeCacheForm(true, 128, 0);
  layer.values = MakeCacheForm(false, 128, 0);
  EXPECT_EQ(CacheLayerBytes(layer), (int64_t{1} << 20) * 8 * (2112 + 16 * 256))
      << "the size needs more than 32 bits";
}

}  // namespace
}  // namespace numoe::execution::cuda
