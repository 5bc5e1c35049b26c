#include "coordinator/execution/device/cpu/cache_memory.h"

#include "common/base/status.h"
#include "common/kernels/layout.h"
#include "fmt/format.h"

namespace numoe::execution {
namespace {

CacheRowForm FormOf(const KvCacheSize& size, int width, int plain_width) {
  CacheRowForm form{.width = width};
  if (size.type == CacheType::kFp8) form.coded = width - plain_width;
  form.groups = cache_row::Groups(form.coded);
  form.row_bytes = cache_row::Bytes(width, form.coded);
  form.block_bytes =
      static_cast<size_t>(size.block_tokens) * (form.row_bytes + static_cast<size_t>(form.groups));
  if (form.groups > 0)
    form.block_bytes = (form.block_bytes + layout::kLine - 1) / layout::kLine * layout::kLine;
  return form;
}
CacheRowForm KeysOf(const CacheShape& shape, const KvCacheSize& size) {
  return FormOf(size, shape.row.key_width, shape.row.plain_width);
}
CacheRowForm ValuesOf(const CacheShape& shape, const KvCacheSize& size) {
  return FormOf(size, shape.row.value_width, 0);
}

}  // namespace

uint64_t CacheMemory::BytesOf(const CacheShape& shape, const KvCacheSize& size) {
  return static_cast<uint64_t>(shape.layers) * static_cast<uint64_t>(size.blocks) *
         static_cast<uint64_t>(shape.row.heads) *
         (KeysOf(shape, size).block_bytes + ValuesOf(shape, size).block_bytes);
}

absl::Status CacheMemory::Check(const CacheShape& shape, const KvCacheSize& size) {
  const CacheRowForm keys = KeysOf(shape, size);
  if (keys.coded == keys.width || keys.coded % layout::kStepCols == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "--kv-cache-dtype=fp8_e4m3: this model keeps latents of {} values, expected a multiple of {}; "
      "use bf16",
      keys.coded, layout::kStepCols));
}

absl::Status CacheMemory::Reserve(const CacheShape& shape, const KvCacheSize& size) {
  shape_ = shape;
  size_ = size;
  keys_ = KeysOf(shape, size);
  values_ = ValuesOf(shape, size);
  absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate(BytesOf(shape, size));
  if (!memory.ok()) {
    return Annotate(memory.status(),
                    fmt::format("KV cache of {} blocks of {} tokens; lower --max-total-tokens", size.blocks,
                                size.block_tokens));
  }
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

}  // namespace numoe::execution
