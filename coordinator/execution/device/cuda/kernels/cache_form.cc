#include "common/kernels/cache_row.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"

namespace numoe::execution::cuda {

CacheForm MakeCacheForm(bool fp8, int width, int plain_width) {
  constexpr int kLineBytes = 64;
  CacheForm form{.width = width, .coded = fp8 ? width - plain_width : 0};
  form.groups = cache_row::Groups(form.coded);
  form.row_bytes = static_cast<int>(cache_row::Bytes(width, form.coded));
  const int bytes = kCacheBlockTokens * (form.row_bytes + form.groups);
  form.block_bytes = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  return form;
}

int64_t CacheLayerBytes(const CacheLayer& layer) {
  return int64_t{layer.blocks} * layer.heads * (layer.keys.block_bytes + layer.values.block_bytes);
}

}  // namespace numoe::execution::cuda
