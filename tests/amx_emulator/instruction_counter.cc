#include "tests/amx_emulator/instruction_counter.h"

#include <signal.h>
#include <ucontext.h>

#include "common/base/check.h"
#include "tests/amx_emulator/amx_emulator.h"

namespace numoe::amx_emulator {
namespace {

InstructionCounts* counts = nullptr;

// Returns the opcode map and opcode of a VEX or EVEX instruction; map 0 if it is neither.
struct Opcode {
  unsigned map = 0;
  unsigned code = 0;
  bool evex = false;
};

Opcode OpcodeAt(const uint8_t* p) {
  switch (p[0]) {
    case 0xc5:
      return {1, p[2], false};
    case 0xc4:
      return {p[1] & 0x1fu, p[3], false};
    case 0x62:
      return {p[1] & 0x07u, p[4], true};
    default:
      return {};
  }
}

// Returns whether it is a move of map 1 (0F): between registers and memory, of masks, or vzeroupper.
bool IsMove(unsigned code) {
  constexpr uint8_t kMoves[] = {0x10, 0x11, 0x12, 0x13, 0x16, 0x17, 0x28, 0x29, 0x2b, 0x6e,
                                0x6f, 0x77, 0x7e, 0x7f, 0x90, 0x91, 0x92, 0x93, 0xd6, 0xe7};
  for (const uint8_t move : kMoves) {
    if (move == code) return true;
  }
  return false;
}

bool IsBroadcast(unsigned code) {  // of map 2 (0F38)
  return (code >= 0x18 && code <= 0x1b) || (code >= 0x58 && code <= 0x5b) || (code >= 0x78 && code <= 0x7c);
}

// Called before each instruction; the context's program counter points to it.
void OnStep(int, siginfo_t*, void* context) {
  auto& state = *static_cast<ucontext_t*>(context);
  while (true) {
    const auto* code = reinterpret_cast<const uint8_t*>(state.uc_mcontext.gregs[REG_RIP]);
    const Op op = Decode(code, {}).op;
    ++counts->all;
    if (op == Op::kNone) {
      if (IsVectorOperation(code)) ++counts->vector;
      return;
    }
    ++counts->tile[static_cast<size_t>(op)];
    // The next trap comes after the next instruction that the CPU executes, so an instruction that is
    // emulated here is counted here.
    if (!StepOver(context)) return;
  }
}

}  // namespace

bool IsVectorOperation(const uint8_t* code) {
  const Opcode at = OpcodeAt(code);
  if (at.map == 0) return false;
  if (at.map == 1)
    return !IsMove(at.code) && (at.evex || at.code < 0x41 || at.code > 0x4b);    // k-register logic
  if (at.map == 2) return !IsBroadcast(at.code) && (at.evex || at.code < 0xf0);  // BMI
  return at.evex || at.code != 0xf0;                                             // rorx
}

InstructionCounts CountInstructions(absl::FunctionRef<void()> code) {
  NUMOE_CHECK(counts == nullptr) << "only one thread may count at a time";
  InstructionCounts result;
  counts = &result;
  struct sigaction action = {}, before;
  action.sa_sigaction = OnStep;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  NUMOE_CHECK_EQ(sigaction(SIGTRAP, &action, &before), 0);
  constexpr uint64_t kTrapFlag = 0x100;
  // The compiler uses the stack below the pointer (red zone), so the pointer is moved past it before the
  // push.
  asm volatile(
      "lea -128(%%rsp), %%rsp\npushfq\norq %0, (%%rsp)\npopfq\nlea 128(%%rsp), %%rsp" ::"i"(kTrapFlag)
      : "cc", "memory");
  code();
  asm volatile(
      "lea -128(%%rsp), %%rsp\npushfq\nandq %0, (%%rsp)\npopfq\nlea 128(%%rsp), %%rsp" ::"i"(~kTrapFlag)
      : "cc", "memory");
  sigaction(SIGTRAP, &before, nullptr);
  counts = nullptr;
  return result;
}

}  // namespace numoe::amx_emulator
