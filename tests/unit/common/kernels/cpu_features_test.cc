// The features of this CPU, as detected and as overridden by a test.
#include "common/kernels/cpu_features.h"

#include "absl/cleanup/cleanup.h"
#include "common/kernels/kernels.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(CpuFeaturesTest, MissingListsAgreeWithTheAnswer) {
  const CpuFeatures& f = DetectCpuFeatures();
  EXPECT_EQ(f.avx2, f.missing_avx2.empty());
  EXPECT_EQ(f.avx512, f.missing_avx512.empty());
  EXPECT_EQ(f.amx, f.missing_amx.empty());
  EXPECT_TRUE(f.avx2 || !f.avx512) << "AVX-512 kernels use AVX2 too";
  EXPECT_TRUE(f.avx512 || !f.amx) << "AMX kernels use AVX-512 too";
  // Compares with the compiler's own CPUID reader: the same bits, and whether the OS saves the registers.
  EXPECT_EQ(f.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c"));
}

TEST(CpuFeaturesTest, AnOverrideIsUsedUntilTheNextOne) {
  const CpuFeatures own = DetectCpuFeatures();
  const absl::Cleanup restore = [&] { OverrideCpuFeaturesForTest(own); };
  OverrideCpuFeaturesForTest({.avx2 = true, .missing_avx512 = "x", .missing_amx = "z"});
  EXPECT_TRUE(DetectCpuFeatures().avx2);
  EXPECT_FALSE(DetectCpuFeatures().avx512);
  EXPECT_EQ(DetectCpuFeatures().missing_avx512, "x");
  EXPECT_EQ(*SelectIsa("auto"), Isa::kAvx2);
  OverrideCpuFeaturesForTest({.missing_avx2 = "y", .missing_avx512 = "x", .missing_amx = "z"});
  EXPECT_EQ(*SelectIsa("auto"), Isa::kScalar);
}

}  // namespace
}  // namespace numoe
