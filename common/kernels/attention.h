// What attention needs in addition to the matrix kernels: packing of cache rows, softmax, and the joining of
// parts.
//
// Attention of some query rows over a run of cached positions consists of two products with matrices that are
// made from the cache as it is read: scores = K q with K [positions, key width], and context = V^T p with V^T
// [value width, positions]. Both matrices are packed as BF16 (layout.h), which is exact for a cache in BF16
// or FP8 (cache_row.h). So every matrix kernel of every instruction set serves attention, too. Long contexts
// are attended in parts, which are joined by their largest scores and their sums (online softmax,
// https://arxiv.org/abs/1805.02867). Thread-safe. Holds no library code, because kernel sources include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/cache_row.h"
#include "common/kernels/kernel_types.h"
#include "common/kernels/quantised.h"

namespace numoe {

/// `count` rows of a cache with `width` values each, the first `coded` of which are FP8 and the others BF16.
/// REQUIRES: if a row has both, coded is a multiple of 64 (a step of layout.h).
struct CacheRows {
  const std::byte* const* rows = nullptr;
  int count = 0;
  int width = 0;
  int coded = 0;
  const uint8_t* const* exponents = nullptr;  // [count] of [Groups(coded)]; null if coded is 0
};

/// Products of a few rows with cache rows that are read in place, used if packing would cost more than it
/// saves. Memory is the limit then, so rows are prefetched. HasFewRows must be true for the format. The
/// results are bit for bit those of MatmulQuantised with the packed matrix in that format.
struct FewRowsArgs {
  CacheRows cache;
  const std::byte* x = nullptr;  // queries of cache.width inputs, or weights of cache.count
  size_t x_stride = 0;           // bytes
  int rows = 0;                  // at most kFewRowsMax
  float* y = nullptr;            // scores [rows][cache.count], or context [rows][cache.width]
  int64_t y_stride = 0;          // floats
};
inline constexpr int kFewRowsMax = 16;

/// One row of scores. The weights are exp(scale * (score - the largest)) for the first `valid` scores and
/// zero for the others up to `count`. They are written as a row of `count` inputs in the format kFloat, kFp32
/// or kBf16 (quantised.h). REQUIRES: 0 < valid <= count, scale > 0, and the
/// valid scores are finite or NaN. If one is NaN, the sum is NaN.
struct SoftmaxArgs {
  const float* scores = nullptr;
  int valid = 0;
  int count = 0;
  float scale = 1.0f;
  ActivationFormat format = ActivationFormat::kFloat;
  std::byte* weights = nullptr;
};
/// The largest scaled score of a part, and the sum of its weights relative to it.
struct SoftmaxPart {
  float top = 0.0f;
  float sum = 0.0f;
};

/// Converts `in` to FP8: `coded` codes, and the exponents of their groups.
void NarrowRow(Isa isa, const float* in, int coded, uint8_t* codes, uint8_t* exponents);
/// Writes all values of one of the rows in BF16.
void WidenRow(Isa isa, const CacheRows& in, int row, uint16_t* out);
/// Writes the BF16 matrix [count outputs, width inputs] to `out`: PackedBytes(kBf16, count, width), 64-byte
/// aligned. A panel of kPanelRows keys is packed as if it were a matrix of its own.
void PackKeys(Isa isa, const CacheRows& keys, std::byte* out);
/// Writes the BF16 matrix [width outputs, count inputs] to `out`.
void PackValues(Isa isa, const CacheRows& values, std::byte* out);
bool HasFewRows(Isa isa, ActivationFormat format);
/// Computes y[r][i] = sum over k of x[r][k] * key[i][k].
void ScoreFewRows(Isa isa, const FewRowsArgs& args);
/// Computes y[r][k] = sum over i of x[r][i] * value[i][k].
void WeighFewRows(Isa isa, const FewRowsArgs& args);
SoftmaxPart Softmax(Isa isa, const SoftmaxArgs& args);
/// Computes out[i] = out[i] * keep + part[i] * add.
void JoinParts(Isa isa, float* out, float keep, const float* part, float add, int n);

/// The functions of one instruction set, for kernel_table.h.
struct AttentionKernels {
  void (*narrow_row)(const float* in, int coded, uint8_t* codes, uint8_t* exponents);
  void (*widen_row)(const CacheRows& in, int row, uint16_t* out);
  void (*pack_keys)(const CacheRows& keys, std::byte* out);
  void (*pack_values)(const CacheRows& values, std::byte* out);
  SoftmaxPart (*softmax)(const SoftmaxArgs& args);
  void (*join_parts)(float* out, float keep, const float* part, float add, int n);
  void (*score_few_rows)(const FewRowsArgs& args);  // null if rows have to be packed
  void (*weigh_few_rows)(const FewRowsArgs& args);
  ActivationFormat few_rows_format = ActivationFormat::kBf16;
};

}  // namespace numoe
