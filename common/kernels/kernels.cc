// Names, selection and dispatch: the one table from instruction set to functions.
#include "common/kernels/kernels.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/kernels/cpu_features.h"
#include "common/kernels/kernel_table.h"

namespace numoe {

extern const KernelTable kKernelsScalar;
extern const KernelTable kKernelsAvx2;
extern const KernelTable kKernelsAvx512;
extern const KernelTable kKernelsAmx;

namespace {

struct IsaRow {
  Isa isa;
  std::string_view name;
  const KernelTable* table;
  // With this number of tokens or more, arithmetic is the limit, and INT8 is faster because its rate is twice
  // that of the more exact formats (measured, CONTRACT.md).
  int int8_tokens_min = 1;
};
constexpr IsaRow kIsas[] = {{Isa::kScalar, "scalar", &kKernelsScalar},
                            {Isa::kAvx2, "avx2", &kKernelsAvx2, 3},
                            {Isa::kAvx512, "avx512", &kKernelsAvx512, 5},
                            {Isa::kAmx, "amx", &kKernelsAmx, 5}};

constexpr int kTileTokensMin = 16;

constexpr std::string_view kPrecisionNames[] = {"auto", "bf16", "fp32"};  // by Precision
static_assert(std::size(kPrecisionNames) == static_cast<size_t>(Precision::kFloat) + 1);

struct FormatRow {
  WeightFormat format;
  std::string_view name;
  std::optional<GgmlType> ggml;  // the blocks that it keeps as they are stored
};
constexpr FormatRow kFormats[] = {
    {WeightFormat::kRawInt4, "raw_int4", {}},
    {WeightFormat::kInt4, "int4", {}},
    {WeightFormat::kInt8, "int8", {}},
    {WeightFormat::kBf16, "bf16", {}},
    {WeightFormat::kFp8, "fp8", {}},
    {WeightFormat::kQ4K, "q4_k", GgmlType::kQ4_K},
    {WeightFormat::kQ4_0, "q4_0", GgmlType::kQ4_0},
    {WeightFormat::kQ4_1, "q4_1", GgmlType::kQ4_1},
    {WeightFormat::kIq4Nl, "iq4_nl", GgmlType::kIq4Nl},
    {WeightFormat::kIq4Xs, "iq4_xs", GgmlType::kIq4Xs},
    {WeightFormat::kMxfp4, "mxfp4", GgmlType::kMxfp4},
    {WeightFormat::kQ6K, "q6_k", GgmlType::kQ6_K},
};
template <typename Row, size_t kRows, typename Key>
constexpr bool InOrder(const Row (&rows)[kRows], Key Row::*key) {
  for (size_t i = 0; i < kRows; ++i) {
    if (static_cast<size_t>(rows[i].*key) != i) return false;
  }
  return true;
}
static_assert(InOrder(kIsas, &IsaRow::isa) && std::size(kIsas) == static_cast<size_t>(Isa::kAmx) + 1);
static_assert(InOrder(kFormats, &FormatRow::format) &&
              std::size(kFormats) == static_cast<size_t>(WeightFormat::kQ6K) + 1);
const FormatRow& RowOf(WeightFormat format) { return kFormats[static_cast<size_t>(format)]; }

const IsaRow& RowOf(Isa isa) { return kIsas[static_cast<size_t>(isa)]; }

// Returns the missing features; empty if it can run here.
std::string Missing(Isa isa) {
  const CpuFeatures& f = DetectCpuFeatures();
  switch (isa) {
    case Isa::kScalar:
      return "";
    case Isa::kAvx2:
      return f.avx2 ? "" : f.missing_avx2;
    case Isa::kAvx512:
      return f.avx512 ? "" : f.missing_avx512;
    case Isa::kAmx:
      return f.amx ? "" : f.missing_amx;
  }
  return "unknown";
}

}  // namespace

const KernelTable& TableOf(Isa isa) { return *RowOf(isa).table; }

std::string_view IsaName(Isa isa) { return RowOf(isa).name; }
std::string_view WeightFormatName(WeightFormat format) { return RowOf(format).name; }
std::optional<GgmlType> GgmlTypeOf(WeightFormat format) { return RowOf(format).ggml; }

std::string WeightFormatNames() {
  std::string names;
  for (const FormatRow& row : kFormats) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

absl::StatusOr<Isa> ParseIsa(std::string_view name) {
  for (const IsaRow& row : kIsas) {
    if (row.name == name) return row.isa;
  }
  return absl::InvalidArgumentError(
      fmt::format("isa is \"{}\", expected auto, scalar, avx2, avx512 or amx", name));
}

absl::StatusOr<WeightFormat> ParseWeightFormat(std::string_view name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row.format;
  }
  return absl::InvalidArgumentError(
      fmt::format("format is \"{}\", expected one of auto, {}", name, WeightFormatNames()));
}

absl::StatusOr<std::optional<WeightFormat>> ParseWeightFormatOrAuto(std::string_view name) {
  if (name == "auto") return std::nullopt;
  return ParseWeightFormat(name);
}

std::string_view PrecisionName(Precision precision) {
  return kPrecisionNames[static_cast<size_t>(precision)];
}

absl::StatusOr<Precision> ParsePrecision(std::string_view name) {
  for (size_t i = 0; i < std::size(kPrecisionNames); ++i) {
    if (kPrecisionNames[i] == name) return static_cast<Precision>(i);
  }
  return absl::InvalidArgumentError(fmt::format("activations are \"{}\", expected auto, bf16 or fp32", name));
}

absl::StatusOr<Isa> SelectIsa(std::optional<Isa> forced) {
  if (!forced) {
    for (const Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvx2}) {
      if (Missing(isa).empty()) return isa;
    }
    return Isa::kScalar;
  }
  if (const std::string missing = Missing(*forced); !missing.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("isa {} cannot run here: missing {}; use --isa=auto", IsaName(*forced), missing));
  }
  return *forced;
}

absl::StatusOr<Isa> SelectIsa(std::string_view forced) {
  if (forced == "auto") return SelectIsa(std::nullopt);
  ASSIGN_OR_RETURN(const Isa isa, ParseIsa(forced));
  return SelectIsa(isa);
}

std::string DescribeIsas() {
  std::string text;
  for (const IsaRow& row : kIsas) {
    const std::string missing = Missing(row.isa);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.name,
                        missing.empty() ? "yes" : fmt::format("no (missing {})", missing));
  }
  return text;
}

WeightFormat NativeFormat(const MatrixView& stored) {
  switch (stored.format) {
    case MatrixFormat::kInt4Group:
      return WeightFormat::kRawInt4;
    case MatrixFormat::kFp8Block:
      return WeightFormat::kFp8;
    case MatrixFormat::kGgml:
      for (const FormatRow& row : kFormats) {
        if (row.ggml == stored.ggml) return row.format;
      }
      return WeightFormat::kInt8;
    case MatrixFormat::kF32:
    case MatrixFormat::kF16:
    case MatrixFormat::kBF16:
      break;
  }
  return WeightFormat::kBf16;
}

void Matmul(Isa isa, const MatmulArgs& args) {
  // A few comparisons for a call of thousands of products cost little enough to stay in release builds.
  NUMOE_CHECK(0 <= args.row_begin && args.row_begin <= args.row_end && args.row_end <= args.weight.rows);
  NUMOE_CHECK_EQ(args.row_begin % kPanelRows, 0);
  NUMOE_CHECK(args.row_end % kPanelRows == 0 || args.row_end == args.weight.rows);
  NUMOE_CHECK(args.tokens <= 1 || args.x_stride >= args.weight.cols);
  NUMOE_CHECK(args.tokens <= 1 || args.y_stride >= args.row_end - args.row_begin);
  NUMOE_DCHECK(reinterpret_cast<uintptr_t>(args.weight.data) % 64 == 0);
  RowOf(isa).table->matmul(args);
}

ActivationFormat ChooseActivationFormat(Isa isa, WeightFormat format, int tokens, Precision precision) {
  const KernelTable& table = *RowOf(isa).table;
  const auto has = [&](ActivationFormat x_format) {
    return table.has_quantised && table.has_quantised(format, x_format);
  };
  if (precision == Precision::kFloat) return ActivationFormat::kFloat;
  for (const ActivationFormat x_format : {ActivationFormat::kTiles, ActivationFormat::kTileQuads}) {
    if (precision == Precision::kFast && tokens >= kTileTokensMin && has(x_format)) return x_format;
  }
  if (precision == Precision::kFast && tokens >= RowOf(isa).int8_tokens_min && has(ActivationFormat::kInt8))
    return ActivationFormat::kInt8;
  for (const ActivationFormat x_format :
       {ActivationFormat::kBf16Quads, ActivationFormat::kBf16, ActivationFormat::kInt8Pair,
        ActivationFormat::kInt16, ActivationFormat::kFp32, ActivationFormat::kFp32Fp8}) {
    if (has(x_format)) return x_format;
  }
  return ActivationFormat::kFloat;
}

void QuantiseRow(Isa isa, ActivationFormat x_format, const float* x, int cols, std::byte* out) {
  NUMOE_DCHECK(cols > 0);
  if (x_format == ActivationFormat::kFloat) {
    std::memcpy(out, x, static_cast<size_t>(cols) * sizeof(float));
    return;
  }
  RowOf(isa).table->quantise_row(x_format, x, cols, out);
}

void MatmulQuantised(Isa isa, const QuantisedMatmulArgs& args) {
  NUMOE_CHECK(0 <= args.row_begin && args.row_begin <= args.row_end && args.row_end <= args.weight.rows);
  NUMOE_CHECK_EQ(args.row_begin % kPanelRows, 0);
  NUMOE_CHECK(args.row_end % kPanelRows == 0 || args.row_end == args.weight.rows);
  NUMOE_CHECK(args.tokens <= 1 || args.x_stride >= quantised::RowBytes(args.x_format, args.weight.cols));
  NUMOE_CHECK(args.tokens <= 1 || args.y_stride >= args.row_end - args.row_begin);
  NUMOE_DCHECK(reinterpret_cast<uintptr_t>(args.weight.data) % 64 == 0);
  NUMOE_DCHECK(RowOf(isa).table->has_quantised(args.weight.format, args.x_format));
  RowOf(isa).table->matmul_quantised(args);
}

void SwiGlu(Isa isa, float* gate, const float* up, int64_t count) {
  NUMOE_DCHECK_GE(count, 0);
  RowOf(isa).table->swiglu(gate, up, count);
}

}  // namespace numoe
