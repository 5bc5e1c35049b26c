// Names, selection and its messages, for machines that the test describes.
#include "common/kernels/kernels.h"

#include <string>

#include "common/kernels/cpu_features.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

// Overrides the features as long as it exists.
class ScopedCpu {
 public:
  explicit ScopedCpu(const CpuFeatures& features) : real_(DetectCpuFeatures()) {
    OverrideCpuFeaturesForTest(features);
  }
  ~ScopedCpu() { OverrideCpuFeaturesForTest(real_); }
  ScopedCpu(const ScopedCpu&) = delete;
  ScopedCpu& operator=(const ScopedCpu&) = delete;

 private:
  const CpuFeatures real_;
};

TEST(NamesTest, RoundTrip) {
  for (const Isa isa : kIsas) EXPECT_EQ(*ParseIsa(IsaName(isa)), isa);
  for (const WeightFormat format : AllFormats()) {
    EXPECT_EQ(*ParseWeightFormat(WeightFormatName(format)), format);
    EXPECT_EQ(*ParseWeightFormatOrAuto(WeightFormatName(format)), format);
  }
  EXPECT_EQ(*ParseWeightFormatOrAuto("auto"), std::nullopt);
  for (const Precision precision : {Precision::kFast, Precision::kBf16, Precision::kFloat})
    EXPECT_EQ(*ParsePrecision(PrecisionName(precision)), precision);
}

TEST(NamesTest, UnknownNamesSayWhatIsKnown) {
  EXPECT_THAT(std::string(ParseIsa("sse9").status().message()),
              HasSubstr("isa is \"sse9\", expected auto, scalar, avx2, avx512 or amx"));
  EXPECT_THAT(
      std::string(ParseWeightFormat("int3").status().message()),
      HasSubstr("format is \"int3\", expected one of auto, raw_int4, int4, int8, bf16, fp8, q4_k, q4_0, "
                "q4_1, iq4_nl, iq4_xs, mxfp4, q6_k"));
  EXPECT_EQ(ParseWeightFormatOrAuto("int3").status(), ParseWeightFormat("int3").status());
  EXPECT_THAT(std::string(ParsePrecision("fp16").status().message()),
              HasSubstr("activations are \"fp16\", expected auto, bf16 or fp32"));
}

TEST(NamesTest, NativeFormatKeepsWhatIsPublished) {
  const auto native = [](MatrixFormat format, GgmlType ggml = GgmlType::kF32) {
    return NativeFormat({.format = format, .data = {}, .scales = {}, .ggml = ggml});
  };
  EXPECT_EQ(native(MatrixFormat::kInt4Group), WeightFormat::kRawInt4);
  EXPECT_EQ(native(MatrixFormat::kFp8Block), WeightFormat::kFp8);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kQ4_K), WeightFormat::kQ4K);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kQ4_0), WeightFormat::kQ4_0);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kQ4_1), WeightFormat::kQ4_1);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kIq4Nl), WeightFormat::kIq4Nl);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kIq4Xs), WeightFormat::kIq4Xs);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kMxfp4), WeightFormat::kMxfp4);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kQ8_0), WeightFormat::kInt8);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kQ6_K), WeightFormat::kQ6K);
  EXPECT_EQ(native(MatrixFormat::kGgml, GgmlType::kQ5_K), WeightFormat::kInt8);
  EXPECT_EQ(native(MatrixFormat::kBF16), WeightFormat::kBf16);
  EXPECT_EQ(native(MatrixFormat::kF16), WeightFormat::kBf16);
  EXPECT_EQ(native(MatrixFormat::kF32), WeightFormat::kBf16);
}

TEST(SelectIsaTest, AutoTakesTheBest) {
  const std::string none = "test";
  for (const auto& [features, best] :
       {std::pair{CpuFeatures{.missing_avx2 = none, .missing_avx512 = none, .missing_amx = none},
                  Isa::kScalar},
        {CpuFeatures{.avx2 = true, .missing_avx512 = none, .missing_amx = none}, Isa::kAvx2},
        {CpuFeatures{.avx2 = true, .avx512 = true, .missing_amx = none}, Isa::kAvx512},
        {CpuFeatures{.avx2 = true, .avx512 = true, .amx = true}, Isa::kAmx}}) {
    const ScopedCpu cpu(features);
    EXPECT_EQ(*SelectIsa("auto"), best);
    EXPECT_EQ(*SelectIsa(std::nullopt), best);
    for (const Isa isa : kIsas) EXPECT_EQ(SelectIsa(IsaName(isa)).ok(), isa <= best) << IsaName(isa);
  }
}

TEST(SelectIsaTest, RefusalNamesWhatIsMissing) {
  const ScopedCpu cpu(
      {.avx2 = true, .missing_avx512 = "avx512_vbmi avx512_bf16", .missing_amx = "amx_tile os-tiles"});
  EXPECT_EQ(SelectIsa("avx512").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(SelectIsa("avx512").status().message()),
              HasSubstr("isa avx512 cannot run here: missing avx512_vbmi avx512_bf16; use --isa=auto"));
  EXPECT_EQ(SelectIsa(Isa::kAvx512).status(), SelectIsa("avx512").status());
  EXPECT_EQ(SelectIsa("sse9").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DescribeIsas(),
            "scalar yes, avx2 yes, avx512 no (missing avx512_vbmi avx512_bf16), amx no (missing amx_tile "
            "os-tiles)");
}

}  // namespace
}  // namespace numoe
