#include "tests/cuda_host/fiber.h"

#include <sys/mman.h>

#include <cstdlib>

// These functions exist only in a program that is linked with the sanitizer.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                          size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                           size_t* bytes);
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);

void numoe_cuda_host_switch(void** save, void* to);
}

#if defined(__x86_64__)
// System V ABI: rbx, rbp and r12-r15 must be preserved, and so must the rounding modes, which kernels do not
// change.
__asm__(
    ".text\n.globl numoe_cuda_host_switch\n.hidden numoe_cuda_host_switch\n"
    ".type numoe_cuda_host_switch,@function\nnumoe_cuda_host_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size numoe_cuda_host_switch,.-numoe_cuda_host_switch\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl numoe_cuda_host_switch\n.hidden numoe_cuda_host_switch\n"
    ".type numoe_cuda_host_switch,%function\nnumoe_cuda_host_switch:\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
    "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
    "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n"
    ".size numoe_cuda_host_switch,.-numoe_cuda_host_switch\n");
#else
#error "fibers: no context switch for this architecture"
#endif

namespace numoe::cuda_host {
namespace {

constexpr size_t kGuardBytes = 4096;

/// Writes the words that the first switch to a fiber pops: zeroed registers and `entry` as the return
/// address.
void* InitialFrame(char* top, void (*entry)()) {
#if defined(__x86_64__)
  constexpr int kSavedRegisters = 6;
  void** frame = reinterpret_cast<void**>(top) - 1;  // at entry rsp is 8 below a multiple of 16
  *--frame = reinterpret_cast<void*>(entry);
  return frame - kSavedRegisters;
#else
  constexpr int kFrameBytes = 160, kLinkRegister = 11;
  void** frame = reinterpret_cast<void**>(top - kFrameBytes);
  frame[kLinkRegister] = reinterpret_cast<void*>(entry);
  return frame;
#endif
}

}  // namespace

void MakeFiber(Context& fiber, void (*entry)()) {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) std::abort();
  fiber.stack_bottom = memory;
  fiber.stack_bytes = kStackBytes;
  fiber.stack_pointer = InitialFrame(static_cast<char*>(memory) + kStackBytes, entry);
  if (__tsan_create_fiber != nullptr) fiber.tsan_fiber = __tsan_create_fiber(0);
}

void FreeFiber(Context& fiber) {
  if (fiber.stack_bottom == nullptr) return;
  munmap(const_cast<void*>(fiber.stack_bottom), fiber.stack_bytes);
  if (__tsan_destroy_fiber != nullptr) __tsan_destroy_fiber(fiber.tsan_fiber);
  fiber = {};
}

void AdoptThread(Context& thread) {
  if (__tsan_get_current_fiber != nullptr) thread.tsan_fiber = __tsan_get_current_fiber();
}

void EnterFiber(Context& launcher) {
  if (__sanitizer_finish_switch_fiber == nullptr) return;
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (launcher.stack_bottom != nullptr) return;  // only the first fiber is entered directly from the launcher
  launcher.stack_bottom = bottom;
  launcher.stack_bytes = bytes;
}

void SwitchFiber(Context& from, Context& to) {
  constexpr unsigned kNoSynchronisation = 1;
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(to.tsan_fiber, kNoSynchronisation);
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(&from.asan_fake_stack, to.stack_bottom, to.stack_bytes);
  }
  numoe_cuda_host_switch(&from.stack_pointer, to.stack_pointer);
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(from.asan_fake_stack, nullptr, nullptr);
  }
}

void Release(void* address) {
  if (__tsan_release != nullptr) __tsan_release(address);
}
void Acquire(void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(address);
}
bool RunsUnderTsan() { return __tsan_release != nullptr; }

}  // namespace numoe::cuda_host
