// Byte-pair merging: joins the adjacent pair with the lowest rank until none is left.
//
// A linked list of parts and a heap of candidate pairs: O(n log n), so that a 25,000-byte run of one letter
// costs milliseconds. Ties go to the leftmost pair. Source: Sennrich et al.,
// https://arxiv.org/abs/1508.07909.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace numoe {

inline constexpr int32_t kNoMerge = std::numeric_limits<int32_t>::max();

/// Lengths of the parts that `piece` ends as, starting from `initial` part lengths (they sum to
/// piece.size()). `rank(left, right)` is the rank of joining two adjacent parts, kNoMerge if they do not
/// join.
std::vector<int> MergeBytes(std::string_view piece, const std::vector<int>& initial,
                            absl::FunctionRef<int32_t(std::string_view left, std::string_view right)> rank);

}  // namespace numoe
