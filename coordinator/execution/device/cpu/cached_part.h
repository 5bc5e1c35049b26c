// CachedPart: the addresses of the keys and values of one part of a sequence in the cache.
//
// A part is kPartKeys positions (attend_plan.h); its rows are listed by address, because a sequence's blocks
// are anywhere in the cache. Does not own the rows. Each thread has its own.
#pragma once

#include <array>

#include "common/kernels/attention.h"
#include "coordinator/execution/device/cpu/attend_plan.h"
#include "coordinator/execution/device/cpu/cache_memory.h"

namespace numoe::execution {

/// The addresses of at most kPartKeys rows of the same layout.
struct RowList {
  std::array<const std::byte*, kPartKeys> rows;
  std::array<const uint8_t*, kPartKeys> exponents;  // only valid if coded > 0
  int count = 0;
  int coded = 0;  // the first `coded` values of a row are in FP8

  void Clear(int coded_values);
  /// Appends `added` consecutive rows, beginning with `first`.
  void Add(const CacheMemory::Row& first, const CacheRowForm& form, int added);
  /// Returns the first `width` values of rows [first, end). Valid as long as the list is unchanged.
  CacheRows Part(int first, int end, int width) const;
};

struct CachedPart {
  RowList keys;
  RowList values;  // empty if the values are a part of the keys

  int count() const { return keys.count; }
  /// Lists the rows of part `part` of the task's sequence, for cache head `head` of `layer`, up to the
  /// position of the task's last token.
  void List(const CacheMemory& cache, const StepLayout& layout, const AttendTask& task, int layer, int head,
            int part);
};

}  // namespace numoe::execution
