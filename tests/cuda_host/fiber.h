// Fibers: stacks that are switched by hand on one OS thread.
//
// A Context is the launching thread or a fiber. Switching saves the callee-saved registers on the old stack
// and returns on the new one. AddressSanitizer is told of each switch, ThreadSanitizer sees each fiber as a
// thread of its own and a switch as no synchronisation: only what the CUDA model orders (barriers,
// __syncwarp, launches) is declared to it by Release and Acquire, so it finds races between CUDA threads.
// Compiled without instrumentation (CMakeLists.txt): the scheduler's own state is touched from all fibers by
// design.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::cuda_host {

/// A kernel's frames in a debug build with sanitizers; untouched pages cost nothing.
inline constexpr size_t kStackBytes = 256 << 10;

struct Context {
  void* stack_pointer = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* asan_fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

/// Gives the context a stack on which `entry` starts at the first switch; entry never returns.
void MakeFiber(Context& fiber, void (*entry)());
void FreeFiber(Context& fiber);
/// Makes the context stand for the calling OS thread.
void AdoptThread(Context& thread);
/// First statement of a fiber's entry: tells ASan that the switch from `launcher` is complete and learns the
/// launcher's stack from it.
void EnterFiber(Context& launcher);
void SwitchFiber(Context& from, Context& to);

/// Happens-before for TSan; nothing without it.
void Release(void* address);
void Acquire(void* address);
bool RunsUnderTsan();

}  // namespace numoe::cuda_host
