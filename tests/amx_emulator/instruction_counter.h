// Counts the instructions that a piece of code executes, by single steps: efficiency that a test can hold
// without the hardware, and that no neighbour's load changes.
//
// For tests only (x86-64 Linux, traps of the CPU's own trap flag; some 1e6 instructions a second). AMX
// instructions are carried out by the emulator where it is installed. One thread at a time may count, and
// only its own instructions are. Code that waits for a lock or a signal would count its spins.
#pragma once

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "tests/amx_emulator/instruction.h"

namespace numoe::amx_emulator {

struct InstructionCounts {
  uint64_t all = 0;
  uint64_t vector = 0;  // VEX and EVEX but for plain loads, stores, broadcasts and moves of masks
  std::array<uint64_t, kOps> tile = {};

  uint64_t Tile(Op op) const { return tile[static_cast<size_t>(op)]; }
};

InstructionCounts CountInstructions(absl::FunctionRef<void()> code);

/// Whether the instruction at `code` counts as InstructionCounts::vector.
bool IsVectorOperation(const uint8_t* code);

}  // namespace numoe::amx_emulator
