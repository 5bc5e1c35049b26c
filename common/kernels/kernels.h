// Matrix kernels over quantised weights: y[t][o] = sum_k W[o][k] * x[t][k], for every ISA and weight format.
//
// Two axes, never a product of files: a weight format has one packed layout (all ISAs read the same bytes)
// and one decoder per vector vocabulary; an algorithm is written once and compiled once per ISA. Which
// implementation runs is decided once, by SelectIsa(), and can be forced (--isa=). The scalar implementation
// is the readable reference. Thread-safe: kernels read shared weights and write only their own output rows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/ggml_blocks.h"
#include "common/kernels/kernel_types.h"
#include "common/kernels/rounded.h"
#include "common/weights/checkpoint.h"

namespace numoe {

std::string_view IsaName(Isa isa);                       // "scalar" "avx2" "avx512" "amx"
std::string_view WeightFormatName(WeightFormat format);  // "raw_int4" "q4_k" ..., as the enumerators
std::string WeightFormatNames();                         // all of them, separated by ", "
absl::StatusOr<Isa> ParseIsa(std::string_view name);
absl::StatusOr<WeightFormat> ParseWeightFormat(std::string_view name);
/// What an operator writes: a format's name, or "auto" for nullopt, as published.
absl::StatusOr<std::optional<WeightFormat>> ParseWeightFormatOrAuto(std::string_view name);

/// The best ISA this CPU and kernel allow, or `forced`; FailedPrecondition if the CPU lacks what was forced,
/// naming the missing features. Also requests AMX tile permission when AMX is chosen.
absl::StatusOr<Isa> SelectIsa(std::optional<Isa> forced);
/// The same of what an operator writes, "auto" or an ISA's name.
absl::StatusOr<Isa> SelectIsa(std::string_view forced);
/// One line for the start log: every ISA with yes/no and the missing CPU features.
std::string DescribeIsas();

/// The type of GGUF blocks that a format holds as stored; nullopt: none.
std::optional<GgmlType> GgmlTypeOf(WeightFormat format);
/// The format a stored matrix is held in when the operator says "auto": as published where a kernel exists;
/// int8 for GGUF's other blocks, which keeps those of GgmlIsInt8 exactly and rounds the rest.
WeightFormat NativeFormat(const MatrixView& stored);

/// Bytes a packed rows x cols matrix takes (multiple of 64).
size_t PackedBytes(WeightFormat format, int rows, int cols);

/// Packs the rectangle [row_begin, row_begin+rows) x [col_begin, col_begin+cols) of `source` into `out`.
/// Lossless for kRawInt4 from kInt4Group, kFp8 from kFp8Block, kBf16 from BF16, those with a GgmlTypeOf from
/// it, kInt8 from kGgml where GgmlIsInt8; otherwise rounds to the format. InvalidArgument if the rectangle
/// cuts a quantisation group (names the block size), the format cannot hold the source (raw_int4 needs
/// kInt4Group, fp8 kFp8Block, q4_k Q4_K, ...), or a scale or, for int8 or int4, a weight is not finite.
/// REQUIRES: out.size() == PackedBytes(format, rows, cols), 64-byte aligned.
absl::Status PackMatrix(WeightFormat format, const MatrixView& source, int64_t row_begin, int rows,
                        int64_t col_begin, int cols, absl::Span<std::byte> out);

/// The weight the packed bytes stand for, as fp32 (for tests and references).
float UnpackWeight(const PackedMatrix& matrix, int row, int col);

/// Computes what MatmulArgs says (kernel_types.h).
void Matmul(Isa isa, const MatmulArgs& args);

/// How exactly activations must meet the weights. kFast: INT8 in groups of 32 where many tokens share a
/// matrix; where few do memory is the limit, and they are BF16 or two INT8 rows. kBf16: those for any number,
/// so that a token's result does not depend on the others. kFloat: fp32.
enum class Precision : uint8_t { kFast, kBf16, kFloat };
std::string_view PrecisionName(Precision precision);  // "auto" "bf16" "fp32"
absl::StatusOr<Precision> ParsePrecision(std::string_view name);

/// The form in which `isa` wants the activations of `tokens` tokens for a matrix in `format`; kFloat: Matmul.
ActivationForm ChooseForm(Isa isa, WeightFormat format, int tokens, Precision precision);
/// Rounds one row (or whole steps of one) of `cols` values to `form`, which ChooseForm gave for this isa.
/// `out` holds rounded::RowBytes(form, cols).
void RoundRow(Isa isa, ActivationForm form, const float* x, int cols, std::byte* out);
/// Matmul on rounded rows. REQUIRES: ChooseForm gave args.form for this isa and format.
void MatmulRounded(Isa isa, const RoundedMatmulArgs& args);

/// h[t][i] = silu(gate[t][i]) * up[t][i]; the one SwiGLU everyone uses. `gate` is overwritten with h.
void SwiGlu(Isa isa, float* gate, const float* up, int64_t count);

}  // namespace numoe
