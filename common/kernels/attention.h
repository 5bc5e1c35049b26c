// What attention needs beside the matrix kernels: cache rows as packed matrices, softmax, joining of parts.
//
// Attention of some query rows over a run of cached positions is two products with matrices that are made
// from the cache as it is read: scores = K q with K [positions, key width], context = V^T p with V^T
// [value width, positions]. Both are packed as BF16 (layout.h), which loses nothing of a cache in BF16 or FP8
// (cache_row.h), so that every matrix kernel of every instruction set serves attention too. Long contexts are
// attended in parts that are joined by their largest scores and sums (online softmax,
// https://arxiv.org/abs/1805.02867). Thread-safe; holds no library code, because kernel sources include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/cache_row.h"
#include "common/kernels/kernel_types.h"
#include "common/kernels/rounded.h"

namespace numoe {

/// `count` rows of a cache, `width` values each, of which the first `coded` are FP8 and the others BF16.
/// REQUIRES: where both are there, coded is a multiple of 64 (a step of layout.h).
struct CacheRows {
  const std::byte* const* rows = nullptr;
  int count = 0;
  int width = 0;
  int coded = 0;
  const uint8_t* const* exponents = nullptr;  // [count] of [Groups(coded)]; null where coded is 0
};

/// Products of a few rows with cache rows as they lie, where packing would cost more than it saves: memory is
/// the limit, and rows are fetched some ahead. Only in a form that HasFewRows; results are bit for bit those
/// of MatmulRounded with the packed matrix in that form.
struct FewRowsArgs {
  CacheRows cache;
  const std::byte* x =
      nullptr;           // rows in that form: queries of cache.width inputs, or weights of cache.count
  size_t x_stride = 0;   // bytes
  int rows = 0;          // at most kFewRowsMax
  float* y = nullptr;    // scores [rows][cache.count], or context [rows][cache.width]
  int64_t y_stride = 0;  // floats
};
inline constexpr int kFewRowsMax = 16;

/// One row of scores. Weights are exp(scale * (score - the largest)) of the first `valid` scores and zero
/// from there to `count`, in the form kFloat, kFp32 or kBf16 of a row of `count` inputs (rounded.h).
/// REQUIRES: 0 < valid <= count, scale > 0, valid scores finite or all of it NaN where one is.
struct SoftmaxArgs {
  const float* scores = nullptr;
  int valid = 0;
  int count = 0;
  float scale = 1.0f;
  ActivationForm form = ActivationForm::kFloat;
  std::byte* weights = nullptr;
};
/// Of a part: the largest scaled score, and the sum of weights relative to it.
struct SoftmaxPart {
  float top = 0.0f;
  float sum = 0.0f;
};

/// `in` to FP8: `coded` codes and their groups' exponents.
void NarrowRow(Isa isa, const float* in, int coded, uint8_t* codes, uint8_t* exponents);
/// All values of one of the rows in BF16.
void WidenRow(Isa isa, const CacheRows& in, int row, uint16_t* out);
/// `out` becomes the BF16 matrix [count outputs, width inputs]: PackedBytes(kBf16, count, width), 64-byte
/// aligned. A panel of kPanelRows keys is packed as a matrix of its own would be.
void PackKeys(Isa isa, const CacheRows& keys, std::byte* out);
/// `out` becomes the BF16 matrix [width outputs, count inputs].
void PackValues(Isa isa, const CacheRows& values, std::byte* out);
bool HasFewRows(Isa isa, ActivationForm form);
/// y[r][i] = sum over k of x[r][k] * key[i][k].
void ScoreFewRows(Isa isa, const FewRowsArgs& args);
/// y[r][k] = sum over i of x[r][i] * value[i][k].
void WeighFewRows(Isa isa, const FewRowsArgs& args);
SoftmaxPart Softmax(Isa isa, const SoftmaxArgs& args);
/// out[i] = out[i] * keep + part[i] * add.
void JoinParts(Isa isa, float* out, float keep, const float* part, float add, int n);

/// One instruction set's functions, for kernel_table.h.
struct AttentionKernels {
  void (*narrow_row)(const float* in, int coded, uint8_t* codes, uint8_t* exponents);
  void (*widen_row)(const CacheRows& in, int row, uint16_t* out);
  void (*pack_keys)(const CacheRows& keys, std::byte* out);
  void (*pack_values)(const CacheRows& values, std::byte* out);
  SoftmaxPart (*softmax)(const SoftmaxArgs& args);
  void (*join_parts)(float* out, float keep, const float* part, float add, int n);
  void (*score_few_rows)(const FewRowsArgs& args);  // null: only the packed way
  void (*weigh_few_rows)(const FewRowsArgs& args);
  ActivationForm few_rows_form = ActivationForm::kBf16;
};

}  // namespace numoe
