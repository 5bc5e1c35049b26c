#include "coordinator/execution/device/cpu/cached_part.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::execution {

void RowList::Clear(int coded_values) {
  count = 0;
  coded = coded_values;
}

void RowList::Add(const CacheMemory::Row& first, const CacheRowForm& form, int added) {
  NUMOE_DCHECK(count + added <= kPartKeys);
  const auto at = static_cast<size_t>(count);
  for (size_t i = 0; i < static_cast<size_t>(added); ++i) rows[at + i] = first.values + i * form.row_bytes;
  for (size_t i = 0; coded > 0 && i < static_cast<size_t>(added); ++i)
    exponents[at + i] = first.exponents + i * static_cast<size_t>(form.groups);
  count += added;
}

CacheRows RowList::Part(int first, int end, int width) const {
  return {.rows = rows.data() + first,
          .count = end - first,
          .width = width,
          .coded = std::min(coded, width),
          .exponents = coded > 0 ? exponents.data() + first : nullptr};
}

void CachedPart::List(const CacheMemory& cache, const StepLayout& layout, const AttendTask& task, int layer,
                      int head, int part) {
  const int block_tokens = cache.block_tokens();
  const int sequence = layout.sequences[static_cast<size_t>(task.token_begin)];
  const int last = layout.positions[static_cast<size_t>(task.token_end - 1)];
  const int end = std::min(last + 1, (part + 1) * kPartKeys);
  keys.Clear(cache.keys().coded);
  values.Clear(cache.values().coded);
  for (int position = part * kPartKeys; position < end;) {
    const int added = std::min(block_tokens - position % block_tokens, end - position);
    keys.Add(cache.Key(layout, layer, sequence, position, head), cache.keys(), added);
    if (cache.values().width > 0)
      values.Add(cache.Value(layout, layer, sequence, position, head), cache.values(), added);
    position += added;
  }
}

}  // namespace numoe::execution
