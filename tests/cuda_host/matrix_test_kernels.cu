#include "coordinator/execution/device/cuda/words.h"
#include "tests/cuda_host/matrix_test_kernels.h"

namespace numoe::execution::cuda {
namespace {

template <bool kMisaligned>
__global__ void Loads(const uint16_t* rows, uint32_t* out) {
  NUMOE_SHARED(uint16_t, tile, [33 * 8]);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) tile[lane * 8 + i] = rows[lane * 8 + i];
  __syncthreads();
  const uint16_t* row = tile + lane * 8 + (kMisaligned ? 2 : 0);
  uint32_t one[1], two[2], four[4];
  uint32_t* mine = out + lane * 14;
  LdMatrix(one, row);
  LdMatrix(two, row);
  LdMatrix(four, row);
  *mine++ = one[0];
  for (const uint32_t value : two) *mine++ = value;
  for (const uint32_t value : four) *mine++ = value;
  LdMatrixTrans(one, row);
  LdMatrixTrans(two, row);
  LdMatrixTrans(four, row);
  *mine++ = one[0];
  for (const uint32_t value : two) *mine++ = value;
  for (const uint32_t value : four) *mine++ = value;
}

__global__ void Mma(const uint32_t* a, const uint32_t* b, float* c) {
  const int lane = static_cast<int>(threadIdx.x);
  uint32_t a_registers[4];
  float sums[4];
  for (int i = 0; i < 4; ++i) a_registers[i] = a[lane * 4 + i];
  for (int i = 0; i < 4; ++i) sums[i] = c[lane * 4 + i];
  MmaBf16(sums, a_registers, b[lane * 2], b[lane * 2 + 1]);
  for (int i = 0; i < 4; ++i) c[lane * 4 + i] = sums[i];
}

__global__ void Fp8(const uint32_t* codes, float4* values, uint2* bf16) {
  const int thread = static_cast<int>(threadIdx.x);  // of 64, 4 codes each
  values[thread] = UnpackE4m3(codes[thread]);
  bf16[thread] = E4m3ToBf16(codes[thread]);
}

__global__ void Fma(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out) {
  const unsigned i = threadIdx.x;
  out[i] = FmaBf16(a[i], b[i], c[i]);
}

const LaunchShape kOneWarp{dim3(1), dim3(32)};

}  // namespace

void LaunchLoads(const uint16_t* rows, uint32_t* out) {
  NUMOE_LAUNCH(Loads<false>, kOneWarp, nullptr, rows, out);
}
void LaunchMisalignedLoad(const uint16_t* rows, uint32_t* out) {
  NUMOE_LAUNCH(Loads<true>, kOneWarp, nullptr, rows, out);
}
void LaunchMmaBf16(const uint32_t* a, const uint32_t* b, float* c) {
  NUMOE_LAUNCH(Mma, kOneWarp, nullptr, a, b, c);
}
void LaunchFp8(const uint8_t* codes, float* values, uint16_t* bf16) {
  NUMOE_LAUNCH(Fp8, (LaunchShape{dim3(1), dim3(64)}), nullptr, reinterpret_cast<const uint32_t*>(codes),
               reinterpret_cast<float4*>(values), reinterpret_cast<uint2*>(bf16));
}
void LaunchFmaBf16(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out) {
  NUMOE_LAUNCH(Fma, kOneWarp, nullptr, a, b, c, out);
}

}  // namespace numoe::execution::cuda
