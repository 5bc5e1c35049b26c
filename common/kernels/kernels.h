// Matrix kernels over quantised weights: y[t][o] = sum_k W[o][k] * x[t][k], for every ISA and weight format.
//
// A weight format has one packed layout, which all ISAs read, and one decoder, written with the vector
// operations of vectors.inc and compiled for each ISA; fast kernels come in addition. So a new format or a
// new ISA needs one addition and not one for each combination. SelectIsa decides once which implementation
// runs; --isa= can force one. The scalar implementation is the readable reference. Thread-safe: kernels read
// shared weights and write only their own output rows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/ggml_blocks.h"
#include "common/kernels/kernel_types.h"
#include "common/kernels/quantised.h"
#include "common/weights/checkpoint.h"

namespace numoe {

std::string_view IsaName(Isa isa);                       // "scalar" "avx2" "avx512" "amx"
std::string_view WeightFormatName(WeightFormat format);  // "raw_int4" "q4_k" ..., as the enumerators
std::string WeightFormatNames();                         // all of them, separated by ", "
absl::StatusOr<Isa> ParseIsa(std::string_view name);
absl::StatusOr<WeightFormat> ParseWeightFormat(std::string_view name);
/// Parses what an operator writes: a format's name. Returns nullopt for "auto", which means as published.
absl::StatusOr<std::optional<WeightFormat>> ParseWeightFormatOrAuto(std::string_view name);

/// Returns the best ISA that this CPU and its Linux kernel allow, or `forced`. FailedPrecondition, with the
/// missing features, if `forced` cannot run here. It also requests permission for AMX tiles if AMX is chosen.
absl::StatusOr<Isa> SelectIsa(std::optional<Isa> forced);
/// Does the same for what an operator writes: "auto" or the name of an ISA.
absl::StatusOr<Isa> SelectIsa(std::string_view forced);
/// Returns a line for the start log: every ISA with yes or no and the missing CPU features.
std::string DescribeIsas();

/// Returns the type of GGUF blocks that a format holds as stored; nullopt if there is none.
std::optional<GgmlType> GgmlTypeOf(WeightFormat format);
/// Returns the format in which a stored matrix is held if the operator says "auto": as published if there is
/// a kernel for it, and int8 for GGUF's other blocks, which is exact for those of GgmlIsInt8 and rounds the
/// others.
WeightFormat NativeFormat(const MatrixView& stored);

/// Returns the bytes of a packed rows x cols matrix (a multiple of 64).
size_t PackedBytes(WeightFormat format, int rows, int cols);

/// Packs the rectangle [row_begin, row_begin+rows) x [col_begin, col_begin+cols) of `source` into `out`.
/// Lossless for kRawInt4 from kInt4Group, kFp8 from kFp8Block, kBf16 from BF16, formats with a GgmlTypeOf
/// from that type, and kInt8 from kGgml if GgmlIsInt8; otherwise weights are rounded to the format.
/// InvalidArgument if the rectangle cuts a quantisation group (the message names the block size), if the
/// format cannot hold the source (raw_int4 needs kInt4Group, fp8 kFp8Block, q4_k Q4_K, ...), or if a scale
/// or, for int8 and int4, a weight is not finite. REQUIRES: out.size() == PackedBytes(format, rows, cols),
/// 64-byte aligned.
absl::Status PackMatrix(WeightFormat format, const MatrixView& source, int64_t row_begin, int rows,
                        int64_t col_begin, int cols, absl::Span<std::byte> out);

/// Returns the weight that the packed bytes mean, as fp32 (for tests and references).
float UnpackWeight(const PackedMatrix& matrix, int row, int col);

/// Computes what MatmulArgs says (kernel_types.h).
void Matmul(Isa isa, const MatmulArgs& args);

/// The precision of activations that are multiplied by weights. kFast: INT8 in groups of 32 if many tokens
/// share a matrix; if few do, memory is the limit, and they are BF16 or two INT8 rows. kBf16: BF16 or two
/// INT8 rows for any number of tokens, so that a token's result does not depend on the others. kFloat: fp32.
enum class Precision : uint8_t { kFast, kBf16, kFloat };
std::string_view PrecisionName(Precision precision);  // "auto" "bf16" "fp32"
absl::StatusOr<Precision> ParsePrecision(std::string_view name);

/// Returns the format in which `isa` reads the activations of `tokens` tokens for a matrix in `format`. If it
/// is kFloat, the caller calls Matmul.
ActivationFormat ChooseActivationFormat(Isa isa, WeightFormat format, int tokens, Precision precision);
/// Quantises one row, or whole steps of one, of `cols` values to `x_format`, which ChooseActivationFormat
/// returned for this isa. `out` holds quantised::RowBytes(x_format, cols). With kFloat the values are copied,
/// and the bytes of `out` after them stay unchanged; with every other format all bytes are written.
void QuantiseRow(Isa isa, ActivationFormat x_format, const float* x, int cols, std::byte* out);
/// Computes what Matmul computes, on quantised rows. REQUIRES: ChooseActivationFormat returned args.x_format
/// for this isa and the weights' format.
void MatmulQuantised(Isa isa, const QuantisedMatmulArgs& args);

/// Computes h[t][i] = silu(gate[t][i]) * up[t][i], for all CPU code. `gate` is overwritten with h.
void SwiGlu(Isa isa, float* gate, const float* up, int64_t count);

}  // namespace numoe
