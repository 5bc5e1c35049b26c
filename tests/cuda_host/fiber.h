// Fibers: stacks that are switched explicitly on one OS thread.
//
// A Context is the launching thread or a fiber. Switching saves the callee-saved registers on the old stack
// and returns on the new one. Each switch is reported to AddressSanitizer. For ThreadSanitizer each fiber is
// a thread, and a switch is not a synchronisation: only the synchronisations of the CUDA model (barriers,
// __syncwarp, launches) are declared to it, by Release and Acquire, so it finds races between CUDA threads.
// Compiled without instrumentation (CMakeLists.txt), because all fibers access the scheduler's state by
// design.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::cuda_host {

/// Enough for a kernel's frames in a debug build with sanitizers; untouched pages cost nothing.
inline constexpr size_t kStackBytes = 256 << 10;

struct Context {
  void* stack_pointer = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* asan_fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

/// Gives the context a stack, on which `entry` starts at the first switch. `entry` must never return.
void MakeFiber(Context& fiber, void (*entry)());
void FreeFiber(Context& fiber);
/// Makes the context stand for the calling OS thread.
void AdoptThread(Context& thread);
/// Must be the first statement of a fiber's entry: tells ASan that the switch from `launcher` is complete,
/// and gets the launcher's stack from it.
void EnterFiber(Context& launcher);
void SwitchFiber(Context& from, Context& to);

/// Declares happens-before to TSan; does nothing in other builds.
void Release(void* address);
void Acquire(void* address);
bool RunsUnderTsan();

}  // namespace numoe::cuda_host
