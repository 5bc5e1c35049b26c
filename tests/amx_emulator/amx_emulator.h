// Runs AMX object code on a CPU without AMX: a SIGILL handler that carries out the instruction and steps over
// it.
//
// For tests only (x86-64 Linux). Install() once; from then on every thread has its own tiles (TileUnit), as
// on hardware. About 1e5 instructions a second. An AMX instruction that hardware would refuse goes to the
// fault hook, by default a message and the signal that the kernel would send; any other illegal instruction
// goes to the handler that was there before. CPUID cannot be faked: the code under test needs its own way to
// be told that AMX is there.
#pragma once

#include <cstdint>

#include "tests/amx_emulator/instruction.h"

namespace numoe::amx_emulator {

/// False if the signal cannot be taken. Installing twice is one installation.
bool Install();
void Uninstall();

/// Instructions carried out since the last reset, by all threads.
uint64_t Count(Op op);
void ResetCounts();

/// Carries out the AMX instruction at a signal context's program counter (ucontext_t) and moves past it, for
/// handlers of other signals. False if the emulator is not installed or the instruction is not AMX.
bool StepOver(void* context);

enum class Fault : uint8_t { kInvalidOpcode, kGeneralProtection };  // #UD, #GP
/// Runs inside the signal handler, on the faulting thread, and may siglongjmp; if it returns, the instruction
/// is skipped. `reason` lives forever. Null: the default.
using FaultHook = void (*)(Fault fault, Op op, const char* reason);
void SetFaultHook(FaultHook hook);

}  // namespace numoe::amx_emulator
