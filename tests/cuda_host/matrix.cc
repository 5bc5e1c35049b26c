#include "tests/cuda_host/matrix.h"

#include "common/formats/bf16.h"
#include "common/formats/fp16.h"

namespace numoe::cuda_host {
namespace {

constexpr int kLoadKind = 40;  // + matrices, + 8 if transposed
constexpr int kBf16Kind = 60;
constexpr int kF16Kind = 61;
constexpr int kS8Kind = 62;
constexpr int kRows = 16;     // of A and C
constexpr int kColumns = 8;   // of B and C
constexpr int kTileRows = 8;  // of an ldmatrix matrix, 16 bytes each

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
  void* c;
};

void CountConflicts(void* const* arguments, int matrix) {
  unsigned seen = 0;  // 8 groups of 16 bytes make up the 32 banks
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

/// C += A B with A [kRows][K] and B [K][kColumns] gathered from the lanes' registers: kPerWord consecutive
/// elements of k in each, K = 8 kPerWord.
template <class Sum, int kPerWord, Sum (*kElement)(uint32_t word, int i)>
void MeetMultiply(void* const* arguments, unsigned) {
  constexpr int kDepth = 8 * kPerWord;
  Sum a[kRows][kDepth], b[kDepth][kColumns], c[kRows][kColumns];
  const auto lane_of = [&](int lane) { return *static_cast<const MultiplyLane*>(arguments[lane]); };
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const int group = lane / 4;
    const int pair = lane % 4;
    const MultiplyLane in = lane_of(lane);
    for (int e = 0; e < kPerWord; ++e) {
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][pair * kPerWord + i / 2 * (kDepth / 2) + e] = kElement(in.a[i], e);
      }
      for (int i = 0; i < 2; ++i) b[pair * kPerWord + i * (kDepth / 2) + e][group] = kElement(in.b[i], e);
    }
    for (int i = 0; i < 4; ++i) c[group + i / 2 * 8][pair * 2 + i % 2] = static_cast<const Sum*>(in.c)[i];
  }
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < kColumns; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    Sum* out = static_cast<Sum*>(lane_of(lane).c);
    for (int i = 0; i < 4; ++i) out[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

float Bf16Element(uint32_t word, int i) { return DecodeBf16(static_cast<uint16_t>(word >> 16 * i)); }
float F16Element(uint32_t word, int i) { return DecodeF16(static_cast<uint16_t>(word >> 16 * i)); }
int S8Element(uint32_t word, int i) { return static_cast<int8_t>(word >> 8 * i); }

void Multiply(int kind, const char* name, void* c, const uint32_t* a, const uint32_t* b, MeetingFunction meet,
              Place place) {
  MultiplyLane argument{a, b, c};
  Machine::Current().Meet(kind, name, ~0u, &argument, meet, place);
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
  Multiply(kBf16Kind, "mma.bf16", c, a, b, MeetMultiply<float, 2, Bf16Element>, place);
}
void MultiplyF16(float* c, const uint32_t* a, const uint32_t* b, Place place) {
  Multiply(kF16Kind, "mma.f16", c, a, b, MeetMultiply<float, 2, F16Element>, place);
}
void MultiplyS8(int* c, const uint32_t* a, const uint32_t* b, Place place) {
  Multiply(kS8Kind, "mma.s8", c, a, b, MeetMultiply<int, 4, S8Element>, place);
}

}  // namespace numoe::cuda_host
