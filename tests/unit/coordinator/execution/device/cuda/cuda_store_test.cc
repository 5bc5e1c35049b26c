// Where the caches of a model are stored on a GPU, and which caches a GPU refuses.
#include "coordinator/execution/device/cuda/cuda_store.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"

namespace numoe::execution::cuda {
namespace {

using ::testing::HasSubstr;

constexpr StepBounds kStoreBounds{.rows = 16, .sequences = 2, .blocks_per_sequence = 4};
constexpr KvCacheSize kSize{.blocks = 5, .block_tokens = 16};
constexpr CacheRow kRow{.heads = 2, .key_width = 64, .value_width = 64};

class CudaStoreTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Runtime> runtime_ = NewSimulatedRuntime();
  const Stream stream_ = *runtime_->NewStream();
  CudaStore store_{kStoreBounds, runtime_->facts(), runtime_.get(), stream_};
};

TEST_F(CudaStoreTest, CachesFollowEachOtherLayerByLayer) {
  const Cache first = store_.NewCache({.layers = 2, .row = kRow, .query_heads = 4});
  const int64_t layer_bytes = int64_t{5} * 16 * kRow.width() * 2;  // BF16
  EXPECT_EQ(store_.KvCacheBytes(kSize), static_cast<uint64_t>(2 * layer_bytes));
  const Cache second = store_.NewCache({.layers = 1, .row = kRow, .query_heads = 4});
  EXPECT_EQ(store_.KvCacheBytes(kSize), static_cast<uint64_t>(3 * layer_bytes));
  ASSERT_TRUE(store_.ReserveKvCache(kSize).ok());
  EXPECT_EQ(store_.memory().kv_cache, static_cast<uint64_t>(3 * layer_bytes));
  const std::byte* const base = store_.cache_layer(first.At(0)).base;
  EXPECT_EQ(store_.cache_layer(first.At(1)).base, base + layer_bytes);
  EXPECT_EQ(store_.cache_layer(second.At(0)).base, base + 2 * layer_bytes);
  EXPECT_EQ(store_.attended().query_heads, 4);
}

TEST_F(CudaStoreTest, RowsThatKernelsCannotReadAreRejected) {
  store_.NewCache({.layers = 1, .row = {.key_width = 40, .value_width = 64}, .query_heads = 1});
  EXPECT_THAT(store_.ReserveKvCache(kSize).ToString(),
              AllOf(HasSubstr("keys of 40 channels (0 of them always BF16) and values of 64"),
                    HasSubstr("multiples of 16")));
}

TEST_F(CudaStoreTest, LayersWithDifferentCacheRowsAreRefused) {
  store_.NewCache({.layers = 1, .row = kRow, .query_heads = 4});
  store_.NewCache({.layers = 1, .row = {.key_width = 96, .plain_width = 32}, .query_heads = 4});
  EXPECT_THAT(store_.ReserveKvCache(kSize).ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("layers with different attention"),
                    HasSubstr("--device=cpu")));
}

TEST_F(CudaStoreTest, LayersWithDifferentNumbersOfHeadsAreRefused) {
  store_.NewCache({.layers = 1, .row = kRow, .query_heads = 4});
  store_.NewCache({.layers = 1, .row = kRow, .query_heads = 8});
  EXPECT_THAT(store_.ReserveKvCache(kSize).ToString(),
              HasSubstr("4 heads to 2 x (64 + 64) values, and 8 heads to 2 x"));
}

}  // namespace
}  // namespace numoe::execution::cuda
