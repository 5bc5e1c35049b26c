#include "coordinator/execution/device/cpu/cache_memory.h"

#include "common/base/status.h"
#include "common/kernels/layout.h"
#include "fmt/format.h"

namespace numoe::execution {
namespace {

CacheRowForm FormOf(const KvCacheSpec& spec, int width, int plain_width) {
  CacheRowForm form{.width = width};
  if (spec.type == CacheType::kFp8) form.coded = width - plain_width;
  form.groups = cache_row::Groups(form.coded);
  form.row_bytes = cache_row::Bytes(width, form.coded);
  form.block_bytes =
      static_cast<size_t>(spec.block_tokens) * (form.row_bytes + static_cast<size_t>(form.groups));
  if (form.groups > 0)
    form.block_bytes = (form.block_bytes + layout::kLine - 1) / layout::kLine * layout::kLine;
  return form;
}
CacheRowForm KeysOf(const KvCacheSpec& spec) {
  return FormOf(spec, spec.row.key_width, spec.row.plain_width);
}
CacheRowForm ValuesOf(const KvCacheSpec& spec) { return FormOf(spec, spec.row.value_width, 0); }

}  // namespace

uint64_t CacheMemory::BytesOf(const KvCacheSpec& spec) {
  return static_cast<uint64_t>(spec.layers) * static_cast<uint64_t>(spec.blocks) *
         static_cast<uint64_t>(spec.row.heads) * (KeysOf(spec).block_bytes + ValuesOf(spec).block_bytes);
}

absl::Status CacheMemory::Check(const KvCacheSpec& spec) {
  const CacheRowForm keys = KeysOf(spec);
  if (keys.coded == keys.width || keys.coded % layout::kStepCols == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "--kv-cache-dtype=fp8_e4m3: this model keeps latents of {} values, expected a multiple of {}; "
      "use bf16",
      keys.coded, layout::kStepCols));
}

absl::Status CacheMemory::Reserve(const KvCacheSpec& spec) {
  spec_ = spec;
  keys_ = KeysOf(spec);
  values_ = ValuesOf(spec);
  absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate(BytesOf(spec));
  if (!memory.ok()) {
    return Annotate(memory.status(),
                    fmt::format("KV cache of {} blocks of {} tokens; lower --max-total-tokens", spec.blocks,
                                spec.block_tokens));
  }
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

}  // namespace numoe::execution
