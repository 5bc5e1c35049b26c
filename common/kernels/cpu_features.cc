#include "common/kernels/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace numoe {
namespace {

constexpr int kArchReqXcompPerm = 0x1023;  // arch_prctl(2)
constexpr int kXfeatureTileData = 18;

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf Cpuid(unsigned leaf, unsigned subleaf) {
  Leaf l;
  if (__get_cpuid_count(leaf, subleaf, &l.a, &l.b, &l.c, &l.d) == 0) return {};
  return l;
}

uint64_t SavedState() {
  if ((Cpuid(1, 0).c & bit_OSXSAVE) == 0) return 0;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

void Require(bool present, const char* name, std::string& missing) {
  if (!present) missing.append(missing.empty() ? "" : " ").append(name);
}

CpuFeatures Detect() {
  CpuFeatures f;
  const Leaf one = Cpuid(1, 0);
  const Leaf seven = Cpuid(7, 0);
  const Leaf seven1 = Cpuid(7, 1);
  const uint64_t state = SavedState();
  const bool ymm = (state & 6) == 6;
  const bool zmm = (state & 0xe6) == 0xe6;
  const bool tiles = (state & (3ull << 17)) == (3ull << 17);
  Require(ymm, "os-ymm", f.missing_avx2);
  Require((seven.b & bit_AVX2) != 0, "avx2", f.missing_avx2);
  Require((one.c & bit_FMA) != 0, "fma", f.missing_avx2);
  Require((one.c & bit_F16C) != 0, "f16c", f.missing_avx2);
  f.missing_avx512 = f.missing_avx2;
  Require(zmm, "os-zmm", f.missing_avx512);
  Require((seven.b & bit_AVX512F) != 0, "avx512f", f.missing_avx512);
  Require((seven.b & bit_AVX512BW) != 0, "avx512bw", f.missing_avx512);
  Require((seven.b & bit_AVX512VL) != 0, "avx512vl", f.missing_avx512);
  Require((seven.b & bit_AVX512DQ) != 0, "avx512dq", f.missing_avx512);
  Require((seven.c & bit_AVX512VNNI) != 0, "avx512_vnni", f.missing_avx512);
  Require((seven.c & bit_AVX512VBMI) != 0, "avx512_vbmi", f.missing_avx512);
  Require((seven1.a & bit_AVX512BF16) != 0, "avx512_bf16", f.missing_avx512);
  f.missing_amx = f.missing_avx512;
  Require((seven.d & (1u << 24)) != 0, "amx_tile", f.missing_amx);
  Require((seven.d & (1u << 25)) != 0, "amx_int8", f.missing_amx);
  Require((seven.d & (1u << 22)) != 0, "amx_bf16", f.missing_amx);
  Require(tiles, "os-tiles", f.missing_amx);
  if (f.missing_amx.empty() && syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) != 0) {
    f.missing_amx = "kernel-permission";
  }
  f.avx2 = f.missing_avx2.empty();
  f.avx512 = f.missing_avx512.empty();
  f.amx = f.missing_amx.empty();
  return f;
}

CpuFeatures& Answer() {
  static CpuFeatures features = Detect();
  return features;
}

}  // namespace

const CpuFeatures& DetectCpuFeatures() { return Answer(); }
void OverrideCpuFeaturesForTest(const CpuFeatures& features) { Answer() = features; }

}  // namespace numoe
