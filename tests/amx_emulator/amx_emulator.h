// Runs AMX object code on a CPU without AMX: a SIGILL handler that executes the instruction and continues
// after it.
//
// For tests only (x86-64 Linux). Install() it once; from then on every thread has its own tiles (TileUnit),
// like on hardware. It executes about 1e5 instructions per second. If hardware would refuse an AMX
// instruction, the fault hook is called, which by default prints a message and raises the signal that the
// kernel would send. Any other illegal instruction goes to the handler that was installed before. CPUID
// cannot be faked, so the code under test needs its own way to be told that AMX is available.
#pragma once

#include <cstdint>

#include "tests/amx_emulator/instruction.h"

namespace numoe::amx_emulator {

/// Returns false if the signal cannot be handled. Installing it twice has no further effect.
bool Install();
void Uninstall();

/// Returns the number of instructions that all threads have executed since the last reset.
uint64_t Count(Op op);
void ResetCounts();

/// Executes the AMX instruction at a signal context's program counter (ucontext_t) and moves the counter
/// after it, for handlers of other signals. Returns false if the emulator is not installed, or if the
/// instruction is not AMX.
bool StepOver(void* context);

enum class Fault : uint8_t { kInvalidOpcode, kGeneralProtection };  // #UD, #GP
/// The hook runs inside the signal handler on the faulting thread and may siglongjmp. If it returns, the
/// instruction is skipped. `reason` is valid forever. null restores the default.
using FaultHook = void (*)(Fault fault, Op op, const char* reason);
void SetFaultHook(FaultHook hook);

}  // namespace numoe::amx_emulator
