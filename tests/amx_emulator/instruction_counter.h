// Counts the instructions that a piece of code executes, by single steps. So a test can check efficiency
// without the hardware, and other programs do not affect the result.
//
// For tests only (x86-64 Linux, with the CPU's trap flag; some 1e6 instructions per second). The emulator
// executes AMX instructions if it is installed. One thread at a time may count, and only its own instructions
// are counted. If the code waits for a lock or a signal, its spinning is counted, too.
#pragma once

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "tests/amx_emulator/instruction.h"

namespace numoe::amx_emulator {

struct InstructionCounts {
  uint64_t all = 0;
  uint64_t vector = 0;  // VEX and EVEX, except plain loads, stores, broadcasts and moves of masks
  std::array<uint64_t, kOps> tile = {};

  uint64_t Tile(Op op) const { return tile[static_cast<size_t>(op)]; }
};

InstructionCounts CountInstructions(absl::FunctionRef<void()> code);

/// Returns whether the instruction at `code` counts as InstructionCounts::vector.
bool IsVectorOperation(const uint8_t* code);

}  // namespace numoe::amx_emulator
