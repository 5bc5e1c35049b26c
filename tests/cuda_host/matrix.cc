#include "tests/cuda_host/matrix.h"

#include "common/formats/bf16.h"

namespace numoe::cuda_host {
namespace {

constexpr int kLoadKind = 40;  // + matrices, + 8 if transposed
constexpr int kBf16Kind = 60;
constexpr int kRows = 16;     // of A and C
constexpr int kColumns = 8;   // of B and C
constexpr int kDepth = 16;    // columns of A, rows of B
constexpr int kTileRows = 8;  // per ldmatrix matrix, 16 bytes each

struct LoadLane {
  uint32_t row[4];
  uintptr_t address;
  uint32_t* result;
  int matrices;
  bool transposed;
};

struct MultiplyLane {
  const uint32_t* a;
  const uint32_t* b;
  float* c;
};

void CountConflicts(void* const* arguments, int matrix) {
  unsigned seen = 0;  // bit mask of bank groups: the 32 banks are 8 groups of 16 bytes
  for (int row = 0; row < kTileRows; ++row) {
    const auto* lane = static_cast<const LoadLane*>(arguments[matrix * kTileRows + row]);
    seen |= 1u << (lane->address / 16 % 8);
  }
  MatrixLoadConflicts().loads += 1;
  MatrixLoadConflicts().conflicts += static_cast<uint64_t>(kTileRows - __builtin_popcount(seen));
}

uint32_t Half(const LoadLane& row, int column) { return row.row[column / 2] >> (column % 2 * 16) & 0xffff; }

void MeetLoad(void* const* arguments, unsigned) {
  const LoadLane& first = *static_cast<const LoadLane*>(arguments[0]);
  for (int matrix = 0; matrix < first.matrices; ++matrix) {
    CountConflicts(arguments, matrix);
    const auto row = [&](int i) -> const LoadLane& {
      return *static_cast<const LoadLane*>(arguments[matrix * kTileRows + i]);
    };
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int group = lane / 4;
      const int pair = lane % 4 * 2;
      const uint32_t low = first.transposed ? Half(row(pair), group) : Half(row(group), pair);
      const uint32_t high = first.transposed ? Half(row(pair + 1), group) : Half(row(group), pair + 1);
      static_cast<const LoadLane*>(arguments[lane])->result[matrix] = low | high << 16;
    }
  }
}

float Bf16Element(uint32_t word, int i) { return DecodeBf16(static_cast<uint16_t>(word >> 16 * i)); }

/// Computes C += A B, with A [kRows][kDepth] and B [kDepth][kColumns] gathered from the lanes' registers:
/// each register of A or B holds two consecutive elements of k.
void MeetMultiply(void* const* arguments, unsigned) {
  float a[kRows][kDepth], b[kDepth][kColumns], c[kRows][kColumns];
  const auto lane_of = [&](int lane) { return *static_cast<const MultiplyLane*>(arguments[lane]); };
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const int group = lane / 4;
    const int pair = lane % 4 * 2;
    const MultiplyLane in = lane_of(lane);
    for (int e = 0; e < 2; ++e) {
      for (int i = 0; i < 4; ++i) a[group + i % 2 * 8][pair + i / 2 * 8 + e] = Bf16Element(in.a[i], e);
      for (int i = 0; i < 2; ++i) b[pair + i * 8 + e][group] = Bf16Element(in.b[i], e);
    }
    for (int i = 0; i < 4; ++i) c[group + i / 2 * 8][pair + i % 2] = in.c[i];
  }
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < kColumns; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    float* out = lane_of(lane).c;
    for (int i = 0; i < 4; ++i) out[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

}  // namespace

BankConflicts& MatrixLoadConflicts() {
  static thread_local BankConflicts conflicts;
  return conflicts;
}

bool PassesMatrixRow(const void* address, int matrices, Place place) {
  Machine& machine = Machine::Current();
  if (machine.current().lane >= matrices * kTileRows) return false;
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint4) != 0) {
    machine.Fail("ldmatrix: a row is not 16-byte aligned", place);
  }
  return true;
}

void LoadMatrices(uint32_t* result, uint4 row, const void* address, int matrices, bool transposed,
                  Place place) {
  LoadLane argument{
      {row.x, row.y, row.z, row.w}, reinterpret_cast<uintptr_t>(address), result, matrices, transposed};
  Machine::Current().Meet(kLoadKind + matrices + (transposed ? 8 : 0),
                          transposed ? "ldmatrix.trans" : "ldmatrix", ~0u, &argument, MeetLoad, place);
}

void MultiplyBf16(float* c, const uint32_t* a, const uint32_t* b, Place place) {
  MultiplyLane argument{a, b, c};
  Machine::Current().Meet(kBf16Kind, "mma.bf16", ~0u, &argument, MeetMultiply, place);
}

}  // namespace numoe::cuda_host
