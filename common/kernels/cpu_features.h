// What this CPU and kernel can run, found once: CPUID, the OS's saved state (XCR0), and AMX tile permission.
//
// CPUID cannot be faked, so tests that run AMX code under the emulator (tests/amx_emulator) override the
// answer; the override also skips the permission call, which a kernel without AMX refuses. Thread-safe.
#pragma once

#include <string>

#include "common/kernels/kernels.h"

namespace numoe {

struct CpuFeatures {
  bool avx2 = false;                                      // AVX2, FMA, F16C
  bool avx512 = false;                                    // F, BW, VL, DQ, VNNI, BF16, VBMI
  bool amx = false;                                       // TILE, INT8, BF16 and the kernel's permission
  std::string missing_avx2, missing_avx512, missing_amx;  // what is missing, for messages
};

const CpuFeatures& DetectCpuFeatures();
/// From now on DetectCpuFeatures returns `features`. Call it before an ISA is selected.
void OverrideCpuFeaturesForTest(const CpuFeatures& features);

}  // namespace numoe
