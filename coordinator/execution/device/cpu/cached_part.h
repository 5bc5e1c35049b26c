// CachedPart: where the keys and values of one part of a sequence are in the cache.
//
// A part is kPartKeys positions (attend_plan.h); its rows are gathered by address, because blocks lie
// anywhere. Owns no rows. One for each thread.
#pragma once

#include <array>

#include "common/kernels/attention.h"
#include "coordinator/execution/device/cpu/attend_plan.h"
#include "coordinator/execution/device/cpu/cache_memory.h"

namespace numoe::execution {

/// At most kPartKeys rows of one form, by address.
struct RowList {
  std::array<const std::byte*, kPartKeys> rows;
  std::array<const uint8_t*, kPartKeys> exponents;  // where some values are coded
  int count = 0;
  int coded = 0;  // values of a row in FP8, the first ones

  void Clear(int coded_values);
  /// `added` rows from `first` on, which lie one behind another.
  void Add(const CacheMemory::Row& first, const CacheRowForm& form, int added);
  /// Rows [first, end), `width` values of each. Valid as long as the list is unchanged.
  CacheRows Part(int first, int end, int width) const;
};

struct CachedPart {
  RowList keys;
  RowList values;  // empty where they are in the keys

  int count() const { return keys.count; }
  /// Lists part `part` of the task's sequence as far as the task's last token sees it: cache head `head` of
  /// `layer`.
  void List(const CacheMemory& cache, const StepLayout& layout, const AttendTask& task, int layer, int head,
            int part);
};

}  // namespace numoe::execution
