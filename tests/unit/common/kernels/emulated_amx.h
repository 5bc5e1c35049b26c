// AMX for tests: on a CPU with AVX-512 and no AMX, AMX kernels run under the emulator (tests/amx_emulator).
//
// Call it once, before an instruction set is selected. It returns whether the emulator is used and counts
// instructions. Test-only.
#pragma once

#include "common/kernels/cpu_features.h"
#include "tests/amx_emulator/amx_emulator.h"

namespace numoe {

inline bool UseEmulator() {
  static const bool use = [] {
    CpuFeatures features = DetectCpuFeatures();
    if (features.amx || !features.avx512) return false;
    features.amx = true;
    OverrideCpuFeaturesForTest(features);
    return amx_emulator::Install();
  }();
  return use;
}

}  // namespace numoe
