// ldmatrix and mma.sync on the host.
//
// Fragment layouts are those of the PTX ISA, "Matrix Fragments for mma.m16n8k16": with group = lane / 4 and
// pair = lane % 4, a lane holds rows group and group + 8 of A, column group of B, and columns 2 pair and
// 2 pair + 1 of C. Products are exact and are added to C in fp32 in ascending k, which is one of the orders
// that the hardware may use (the hardware may also truncate where this rounds, so tolerances must allow
// both). All 32 lanes take part.
#pragma once

#include <cstdint>

#include "tests/cuda_host/machine.h"

namespace numoe::cuda_host {

/// Lane 8 i + j passes row j of the i-th 8x8 matrix of 16-bit values and its address in shared memory; lanes
/// 8 * `matrices` and higher may pass anything. `matrices` is 1, 2 or 4; result i is the lane's pair of
/// matrix i, or of its transpose if `transposed`.
void LoadMatrices(uint32_t* result, uint4 row, const void* address, int matrices, bool transposed,
                  Place place);
/// Stops unless the calling lane may read the row at `address`. Returns false if the lane passes no row.
bool PassesMatrixRow(const void* address, int matrices, Place place);

/// c[4] += A[16x16] B[16x8]; `a` has four registers, `b` two.
void MultiplyBf16(float* c, const uint32_t* a, const uint32_t* b, Place place);

/// How often rows of one 8x8 load shared a bank group, and the number of loads, in the calling thread's
/// launches so far. A layout without conflicts has 0.
struct BankConflicts {
  uint64_t loads = 0;
  uint64_t conflicts = 0;
};
BankConflicts& MatrixLoadConflicts();

}  // namespace numoe::cuda_host
