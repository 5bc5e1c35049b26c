// GGUF's block formats: rows of blocks of 32 or 256 values, each with its own scales inside.
//
// The layouts and formulas are ggml's (https://github.com/ggml-org/ggml, ggml-common.h and ggml-quants.c),
// little-endian. A row of n values is n / block_values blocks, one after the other. Decoding multiplies in
// fp32 in the order of the reference and gives the same bits. Six formats have codes of at most 8 bits and
// one scale for 32 values; these can be held as int8 without loss. Pure functions; data needs no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

/// The numbers of the types in a GGUF file.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIq4Nl = 20,
  kIq4Xs = 23,
  kBF16 = 30,
  kMxfp4 = 39,
};

struct GgmlTraits {
  GgmlType type;
  const char* name;  // as llama.cpp prints it
  int block_values;
  int block_bytes;
};

/// Returns nullptr for a number that this engine does not read.
const GgmlTraits* FindGgmlTraits(uint32_t id);
/// REQUIRES: `type` is one of the enumerators.
const GgmlTraits& TraitsOf(GgmlType type);

/// Decodes `count` blocks into count * block_values values.
void DecodeGgmlBlocks(GgmlType type, const std::byte* blocks, int64_t count, float* out);

inline constexpr int kGgmlGroup = 32;  // values that share a scale in formats with GgmlIsInt8
/// Returns true for Q4_0, Q5_0, Q8_0, IQ4_NL, IQ4_XS and MXFP4: every value is a code of -128 to 127 times
/// its group's scale.
bool GgmlIsInt8(GgmlType type);
/// Writes the codes of the 32 values of group `group` of a block, and returns their scale. REQUIRES:
/// GgmlIsInt8(type).
float DecodeGgmlInt8(GgmlType type, const std::byte* block, int group, int8_t* codes);

}  // namespace numoe
