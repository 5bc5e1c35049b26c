#include "tests/cuda_host/machine.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace numoe::cuda_host {
namespace {

constexpr size_t kSharedAlignment = 1024;  // TMA and swizzled tiles need it
constexpr unsigned char kPoison = 0xff;

struct SharedSlot {
  size_t bytes;
  size_t alignment;
};
constexpr int kSlotsMax = 512;
SharedSlot slots[kSlotsMax];
std::atomic<int> slot_count;
std::atomic<size_t> block_shared_bytes_max = kBlockSharedBytesMax;

// A volatile loop instead of memset, because the sanitizers intercept memset and would treat it as an access
// by the kernel.
void Poison(void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) static_cast<volatile unsigned char*>(memory)[i] = kPoison;
}

// Allocates from the heap, so that ASan detects overruns. Under TSan it avoids all intercepted functions,
// because otherwise the first thread of a block that allocates would seem to write the memory at that moment.
void* AllocateShared(size_t bytes, size_t alignment) {
  if (RunsUnderTsan()) {
    const long memory =
        syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    return memory == -1 ? nullptr : reinterpret_cast<void*>(memory);
  }
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

unsigned LaneMask(int lanes) { return lanes >= kWarpLanes ? ~0u : (1u << lanes) - 1; }

}  // namespace

int NewSharedSlot(size_t bytes, size_t alignment) {
  const int slot = slot_count++;
  if (slot >= kSlotsMax) std::abort();
  slots[slot] = {bytes, alignment < sizeof(uint4) ? sizeof(uint4) : alignment};
  return slot;
}

void SetBlockSharedBytesMax(size_t bytes) { block_shared_bytes_max = bytes; }

Machine& Machine::Create() {
  thread_local std::unique_ptr<Machine> owner;
  owner.reset(new Machine);
  current_machine_ = owner.get();
  return *owner;
}

Machine::~Machine() {
  for (Thread& thread : threads_) {
    FreeFiber(thread.context);
    free(thread.copies);
  }
  for (int slot = 0; slot < kSharedSlotsMax; ++slot) {
    if (shared_[slot] == nullptr) continue;
    RunsUnderTsan() ? static_cast<void>(munmap(shared_[slot], slots[slot].bytes)) : free(shared_[slot]);
  }
}

void Machine::CheckShared(Place place) {
  if (static_bytes_ > kStaticSharedBytesMax) Fail("more than 48 KiB of static shared memory", place);
  if (static_bytes_ + grid_.shared_bytes > block_shared_bytes_max)
    Fail("more shared memory than the device allows a block", place);
}

void* Machine::StaticShared(int slot) {
  if (current_ != nullptr && shared_run_[slot] != runs_) {
    shared_run_[slot] = runs_;
    static_bytes_ += slots[slot].bytes;
    CheckShared(Place::current());
  }
  if (shared_[slot] == nullptr) {
    shared_[slot] = AllocateShared(slots[slot].bytes, slots[slot].alignment);
    if (shared_[slot] == nullptr) std::abort();
    Poison(shared_[slot], slots[slot].bytes);
  }
  return shared_[slot];
}

uint32_t Machine::Random() {  // xorshift64
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<uint32_t>(random_ >> 32);
}

// --- grids and blocks --------------------------------------------------------------------------------------

void Machine::Run(const Grid& grid, void (*body)(void*), void* argument) {
  if (current_ != nullptr) Fail("a kernel launches a kernel", Place::current());
  grid_ = grid;
  ++runs_;
  static_bytes_ = 0;
  schedule_ = CurrentSchedule();
  random_ = schedule_.seed * 0x9e3779b97f4a7c15ull | 1;
  body_ = body;
  argument_ = argument;
  const uint64_t threads = uint64_t{grid.threads.x} * grid.threads.y * grid.threads.z;
  const uint64_t blocks = uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z;
  thread_count_ = 0;
  if (threads == 0 || threads > kBlockThreadsMax) Fail("a block has 1 to 1024 threads", Place::current());
  if (blocks == 0 || grid.blocks.x > 0x7fffffffu || grid.blocks.y > 65535 || grid.blocks.z > 65535) {
    Fail("a grid has 1 to 2^31-1 x 65535 x 65535 blocks", Place::current());
  }
  CheckShared(Place::current());
  AdoptThread(launcher_);
  MakeThreads(static_cast<int>(threads));
  const uint64_t shift = schedule_.order == ThreadOrder::kRandom ? Random() % blocks : 0;
  for (uint64_t step = 0; step < blocks; ++step) {
    const uint64_t i =
        schedule_.order == ThreadOrder::kDescending ? blocks - 1 - step : (step + shift) % blocks;
    block_ = {static_cast<unsigned>(i % grid.blocks.x),
              static_cast<unsigned>(i / grid.blocks.x % grid.blocks.y),
              static_cast<unsigned>(i / grid.blocks.x / grid.blocks.y)};
    RunBlock();
  }
}

void Machine::MakeThreads(int count) {
  thread_count_ = count;
  for (int i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    if (thread.context.stack_bottom == nullptr) MakeFiber(thread.context, &Machine::ThreadEntry);
    const unsigned linear = static_cast<unsigned>(i);
    thread.index = {linear % grid_.threads.x, linear / grid_.threads.x % grid_.threads.y,
                    linear / grid_.threads.x / grid_.threads.y};
    thread.linear = i;
    thread.lane = i % kWarpLanes;
    thread.warp = i / kWarpLanes;
  }
}

void Machine::RunBlock() {
  if (grid_.shared_bytes > 0) {
    if (posix_memalign(&dynamic_shared_, kSharedAlignment, grid_.shared_bytes) != 0) std::abort();
    Poison(dynamic_shared_, grid_.shared_bytes);
  }
  for (int slot = 0; slot < slot_count && slot < kSharedSlotsMax; ++slot) {
    if (shared_[slot] != nullptr) Poison(shared_[slot], slots[slot].bytes);
  }
  Release(&launch_order_);
  for (int warp = 0; warp * kWarpLanes < thread_count_; ++warp) {
    warps_[warp].meeting_count = 0;
    warps_[warp].live = LaneMask(thread_count_ - warp * kWarpLanes);
  }
  barrier_.waiting = barrier_.nonzero = 0;
  live_ = thread_count_;
  ready_count_ = 0;
  for (int i = 0; i < thread_count_; ++i) {
    Thread& thread = threads_[schedule_.order == ThreadOrder::kDescending ? i : thread_count_ - 1 - i];
    thread.exited = false;
    thread.copy_count = thread.copy_group = 0;
    MakeReady(&thread);
  }
  current_ = Pick();
  SwitchFiber(launcher_, current_->context);
  current_ = nullptr;
  if (live_ != 0) Fail("deadlock: threads wait for others that never come", Place::current());
  Acquire(&exit_order_);
  free(dynamic_shared_);
  dynamic_shared_ = nullptr;
}

void Machine::ThreadEntry() {
  Machine& machine = Current();
  EnterFiber(machine.launcher_);
  for (;;) {  // once per block
    Acquire(&machine.launch_order_);
    machine.body_(machine.argument_);
    machine.ExitThread();
  }
}

void Machine::ExitThread() {
  Thread& me = *current_;
  if (me.copy_count > 0) Fail("thread exits while its cp.async are in flight", me.place);
  me.exited = true;
  --live_;
  Warp& warp = warps_[me.warp];
  warp.live &= ~(1u << me.lane);
  for (int i = 0; i < warp.meeting_count; ++i) {
    if ((warp.meetings[i].mask >> me.lane & 1) != 0) {
      Fail("thread exits while lanes of its warp wait for it", warp.meetings[i].place);
    }
  }
  if (barrier_.waiting > 0) Fail("thread exits while others wait at __syncthreads", barrier_.place);
  Release(&exit_order_);
  SwitchToNext();
}

// --- choosing the next thread ------------------------------------------------------------------------------

void Machine::MakeReady(Thread* thread) {
  thread->waits_for = nullptr;
  ready_[ready_count_++] = thread;
}

Thread* Machine::Pick() {
  if (ready_count_ == 0) return nullptr;
  if (schedule_.order == ThreadOrder::kRandom) {
    const int i = static_cast<int>(Random() % static_cast<unsigned>(ready_count_));
    Thread* picked = ready_[i];
    ready_[i] = ready_[--ready_count_];
    return picked;
  }
  return ready_[--ready_count_];
}

void Machine::SwitchToNext() {
  Thread* me = current_;
  Thread* next = Pick();
  if (next == me) return;
  current_ = next;
  SwitchFiber(me->context, next == nullptr ? launcher_ : next->context);
}

void Machine::Yield() {
  if (ready_count_ == 0) return;
  Thread* me = current_;
  Thread* next = ready_[0];
  for (int i = 1; i < ready_count_; ++i) ready_[i - 1] = ready_[i];
  ready_[ready_count_ - 1] = me;
  current_ = next;
  SwitchFiber(me->context, next->context);
}

void Machine::ReleaseLanes(int warp, unsigned lanes) {
  const bool descending = schedule_.order == ThreadOrder::kDescending;
  for (int i = 0; i < kWarpLanes; ++i) {  // the last one made ready runs first
    const int lane = descending ? i : kWarpLanes - 1 - i;
    if ((lanes >> lane & 1) != 0) MakeReady(&threads_[warp * kWarpLanes + lane]);
  }
}

// --- barriers ----------------------------------------------------------------------------------------------

void Machine::ReleaseBarrier() {
  const int waiting = barrier_.waiting;
  barrier_.result[barrier_.generation & 1] = barrier_.nonzero;
  barrier_.waiting = barrier_.nonzero = 0;
  ++barrier_.generation;
  Thread** waiters = barrier_.waiters;
  for (int i = 1; i < waiting; ++i) {  // insertion sort: the threads arrive nearly sorted
    Thread* thread = waiters[i];
    int j = i;
    for (; j > 0 && waiters[j - 1]->linear > thread->linear; --j) waiters[j] = waiters[j - 1];
    waiters[j] = thread;
  }
  const bool descending = schedule_.order == ThreadOrder::kDescending;
  for (int i = 0; i < waiting; ++i) MakeReady(waiters[descending ? i : waiting - 1 - i]);
}

int Machine::Wait(int vote, Place place) {
  Thread& me = *current_;
  me.waits_for = "__syncthreads";
  me.place = place;
  me.mask = 0;
  if (barrier_.waiting > 0 && barrier_.place.line() != place.line()) {
    Fail("divergent barrier: threads wait at different source lines", place);
  }
  if (live_ != thread_count_) Fail("barrier after threads of the block have exited", place);
  const unsigned generation = barrier_.generation & 1;
  barrier_.place = place;
  Release(&barrier_.order[generation]);
  barrier_.nonzero += vote != 0 ? 1 : 0;
  barrier_.waiters[barrier_.waiting++] = &me;
  if (barrier_.waiting == thread_count_) ReleaseBarrier();
  SwitchToNext();
  Acquire(&barrier_.order[generation]);
  return barrier_.result[generation];
}

// --- operations of several lanes ---------------------------------------------------------------------------

void Machine::FinishMeeting(int warp_index, int index, MeetingFunction meet) {
  Warp& warp = warps_[warp_index];
  const Meeting meeting = warp.meetings[index];
  warp.meetings[index] = warp.meetings[--warp.meeting_count];
  if (meet != nullptr) meet(meeting.arguments, meeting.arrived);
  ++warp.generation;
  ReleaseLanes(warp_index, meeting.arrived);
}

void Machine::Meet(int kind, const char* name, unsigned mask, void* argument, MeetingFunction meet,
                   Place place) {
  Thread& me = *current_;
  me.waits_for = name;
  me.place = place;
  me.mask = mask;
  Warp& warp = warps_[me.warp];
  if ((mask >> me.lane & 1) == 0) Fail("the calling lane is not named in the mask", place);
  if ((mask & ~warp.live) != 0) Fail("the mask names lanes that have exited or do not exist", place);
  int index = 0;
  while (index < warp.meeting_count &&
         !(warp.meetings[index].kind == kind && warp.meetings[index].mask == mask)) {
    ++index;
  }
  if (index == Warp::kMeetingsMax) Fail("lanes of one warp wait in more than 8 different operations", place);
  Meeting& meeting = warp.meetings[index];
  if (index == warp.meeting_count) {
    ++warp.meeting_count;
    meeting.kind = kind;
    meeting.mask = mask;
    meeting.arrived = 0;
    meeting.place = place;
    meeting.order = &warp.order[warp.generation & 1];
  } else if (meeting.place.line() != place.line()) {
    Fail("divergent warp operation: lanes wait at different source lines", place);
  }
  meeting.arrived |= 1u << me.lane;
  meeting.arguments[me.lane] = argument;
  uint64_t* order = meeting.order;
  if (kind == kSyncwarp) Release(order);
  if (meeting.arrived == mask) FinishMeeting(me.warp, index, meet);
  SwitchToNext();
  if (kind == kSyncwarp) Acquire(order);
}

// --- diagnosis ---------------------------------------------------------------------------------------------

void Machine::Fail(const char* what, Place place) {
  std::fprintf(stderr, "cuda_host: %s: %s (%s:%u)", grid_.kernel, what, place.file_name(), place.line());
  if (current_ != nullptr) {
    const uint3 t = current_->index;
    std::fprintf(stderr, " in thread (%u,%u,%u) of block (%u,%u,%u)", t.x, t.y, t.z, block_.x, block_.y,
                 block_.z);
  }
  std::fprintf(stderr, ", schedule: %s\n", schedule_.Name().c_str());
  for (int first = 0; first < thread_count_;) {  // threads in the same place share a line
    const Thread& thread = threads_[first];
    int last = first;
    while (last + 1 < thread_count_ && threads_[last + 1].exited == thread.exited &&
           threads_[last + 1].waits_for == thread.waits_for && threads_[last + 1].mask == thread.mask &&
           threads_[last + 1].place.line() == thread.place.line()) {
      ++last;
    }
    const char* state = thread.exited                 ? "exited"
                        : thread.waits_for != nullptr ? thread.waits_for
                                                      : "runnable";
    std::fprintf(stderr, "  threads %d..%d: %s, line %u, mask %08x\n", first, last, state,
                 thread.place.line(), thread.mask);
    first = last + 1;
  }
  std::fflush(stderr);
  std::abort();
}

}  // namespace numoe::cuda_host
