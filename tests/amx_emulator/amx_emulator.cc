#include "tests/amx_emulator/amx_emulator.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "tests/amx_emulator/tile_unit.h"

namespace numoe::amx_emulator {
namespace {

// initial-exec, because the first access happens inside a signal handler and must not allocate.
thread_local TileUnit tile_unit __attribute__((tls_model("initial-exec")));

std::atomic<uint64_t> op_counts[kOps];
std::atomic<FaultHook> fault_hook{nullptr};
bool installed = false;
struct sigaction previous;

Registers RegistersOf(const ucontext_t& context) {
  constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  Registers out;
  for (int i = 0; i < 16; ++i) out.general[i] = static_cast<uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  asm volatile("mov %%fs:0, %0"
               : "=r"(out.fs_base));  // x86-64 ABI: the thread block begins with its own address
  return out;
}

// Prints what went wrong and raises the signal with its default action, in the way in which the kernel would
// end the process.
[[noreturn]] void Die(Fault fault, Op op, const char* reason) {
  const auto say = [](const char* text) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, strlen(text));
  };
  say("amx_emulator: ");
  say(OpName(op));
  say(fault == Fault::kInvalidOpcode ? " #UD: " : " #GP: ");
  say(reason);
  say("\n");
  const int number = fault == Fault::kInvalidOpcode ? SIGILL : SIGSEGV;
  signal(number, SIG_DFL);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, number);
  pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  raise(number);
  _exit(128 + number);
}

TileUnit::Refusal Execute(const Instruction& i) {
  const DotTiles dot{.c = i.tile, .a = i.source_a, .b = i.source_b};
  switch (i.op) {
    case Op::kLdTileCfg:
      return tile_unit.LoadConfig(reinterpret_cast<const uint8_t*>(i.address));
    case Op::kStTileCfg:
      tile_unit.StoreConfig(reinterpret_cast<uint8_t*>(i.address));
      return nullptr;
    case Op::kTileRelease:
      tile_unit.Release();
      return nullptr;
    case Op::kTileZero:
      return tile_unit.Zero(i.tile);
    case Op::kTileLoad:
    case Op::kTileLoadT1:
      return tile_unit.Load(i.tile, i.address, i.stride);
    case Op::kTileStore:
      return tile_unit.Store(i.tile, i.address, i.stride);
    case Op::kDotSignedSigned:
      return tile_unit.DotInt8(dot, true, true);
    case Op::kDotSignedUnsigned:
      return tile_unit.DotInt8(dot, true, false);
    case Op::kDotUnsignedSigned:
      return tile_unit.DotInt8(dot, false, true);
    case Op::kDotUnsignedUnsigned:
      return tile_unit.DotInt8(dot, false, false);
    case Op::kDotBf16:
      return tile_unit.DotBf16(dot);
    case Op::kNone:
      break;
  }
  return "not an AMX instruction";
}

// Returns false if the instruction at the context's program counter is not AMX.
bool Step(ucontext_t& context) {
  greg_t& rip = context.uc_mcontext.gregs[REG_RIP];
  const Instruction instruction = Decode(reinterpret_cast<const uint8_t*>(rip), RegistersOf(context));
  if (instruction.op == Op::kNone) return false;
  if (TileUnit::Refusal reason = Execute(instruction)) {
    const Fault fault = instruction.op == Op::kLdTileCfg ? Fault::kGeneralProtection : Fault::kInvalidOpcode;
    const FaultHook hook = fault_hook.load();
    if (hook == nullptr) Die(fault, instruction.op, reason);
    hook(fault, instruction.op, reason);
  } else {
    op_counts[static_cast<int>(instruction.op)].fetch_add(1, std::memory_order_relaxed);
  }
  rip += instruction.length;
  return true;
}

void OnIllegalInstruction(int number, siginfo_t* info, void* context) {
  if (Step(*static_cast<ucontext_t*>(context))) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(number, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(number);
  signal(SIGILL, SIG_DFL);  // the instruction is executed again and ends the process
}

}  // namespace

bool Install() {
  if (installed) return true;
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  // NODEFER: a fault hook may leave by longjmp; ONSTACK: sanitizers and tests may run on small stacks.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  installed = sigaction(SIGILL, &action, &previous) == 0;
  return installed;
}

void Uninstall() {
  if (!installed) return;
  sigaction(SIGILL, &previous, nullptr);
  installed = false;
}

bool StepOver(void* context) { return installed && Step(*static_cast<ucontext_t*>(context)); }

uint64_t Count(Op op) { return op_counts[static_cast<int>(op)].load(std::memory_order_relaxed); }

void ResetCounts() {
  for (std::atomic<uint64_t>& count : op_counts) count.store(0, std::memory_order_relaxed);
}

void SetFaultHook(FaultHook hook) { fault_hook.store(hook); }

}  // namespace numoe::amx_emulator
