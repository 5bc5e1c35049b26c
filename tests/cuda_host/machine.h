// The CUDA execution model on one OS thread: grids, blocks, warps, barriers and shared memory.
//
// Each OS thread that launches kernels owns a Machine; launches on different threads run concurrently. A
// machine runs a grid's blocks one after another, so blocks that wait for each other (cooperative launches,
// clusters) are not supported. In a block each CUDA thread is a fiber that runs until it waits, and a
// released warp or block runs as far ahead as it can: the schedules (schedule.h) are the extremes of what
// CUDA allows. Shared memory is filled with 0xff (NaN as float, BF16 or FP8; -1 as integer) before each
// block. Undefined behaviour in CUDA stops the process (Fail) with the kernel, the block, the thread, the
// source line and the places of all other threads: divergent barriers, barriers after an exit, lanes that
// wait in different operations, copies that no thread waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "tests/cuda_host/fiber.h"
#include "tests/cuda_host/schedule.h"
#include "tests/cuda_host/vector_types.h"

namespace numoe::cuda_host {

inline constexpr int kWarpLanes = 32;
inline constexpr int kBlockThreadsMax = 1024;
inline constexpr size_t kBlockSharedBytesMax = 227 << 10;  // sm_90; sm_80 has 163 KiB, sm_86 and sm_89 99 KiB
inline constexpr size_t kStaticSharedBytesMax = 48 << 10;  // what ptxas allows
inline constexpr int kPendingCopiesMax = 512;              // per thread

using Place = std::source_location;

/// A cp.async that has not completed. `group` counts the issuing thread's commits.
struct PendingCopy {
  void* target;
  const void* source;
  int bytes;
  int source_bytes;  // the rest of the target becomes zero
  int group;
};

struct Thread {
  Context context;
  uint3 index;
  int linear, lane, warp;
  bool exited;
  const char* waits_for;  // null if the thread can run
  Place place;
  unsigned mask;
  PendingCopy* copies;  // [kPendingCopiesMax], allocated at the thread's first copy
  int copy_count, copy_group;
};

/// One __shfl, vote, mma ...: the lanes of `mask` wait for each other, and the last one computes for all.
struct Meeting {
  int kind;
  unsigned mask, arrived;
  Place place;
  void* arguments[kWarpLanes];
  uint64_t* order;  // only for a __syncwarp
};
using MeetingFunction = void (*)(void* const* arguments, unsigned lanes);

struct Warp {
  static constexpr int kMeetingsMax = 8;
  Meeting meetings[kMeetingsMax];
  int meeting_count;
  unsigned live, generation;
  uint64_t order[2];
};

/// The barrier of __syncthreads.
struct Barrier {
  int waiting;
  int nonzero;  // votes of __syncthreads_count and similar functions
  Place place;
  unsigned generation;
  int result[2];
  uint64_t order[2];
  Thread* waiters[kBlockThreadsMax];
};

/// The shape of a launch, with the limits of CUDA.
struct Grid {
  const char* kernel = "";
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;  // dynamic
};

class Machine {
 public:
  /// The machine of the calling OS thread, which lives as long as the thread.
  static Machine& Current() { return current_machine_ != nullptr ? *current_machine_ : Create(); }
  ~Machine();

  /// Runs body(argument) once per thread of the grid.
  void Run(const Grid& grid, void (*body)(void*), void* argument);

  Thread& current() { return *current_; }
  const Grid& grid() const { return grid_; }
  uint3 block() const { return block_; }
  void* dynamic_shared() const { return dynamic_shared_; }
  const Schedule& schedule() const { return schedule_; }
  uint32_t Random();

  /// Returns the storage of one static __shared__ variable.
  void* StaticShared(int slot);

  /// Waits for all threads of the block. Returns the number of non-zero votes.
  int Wait(int vote, Place place);
  /// Returns when all live lanes of `mask` have called it with this kind, and `meet` has run once with their
  /// arguments.
  void Meet(int kind, const char* name, unsigned mask, void* argument, MeetingFunction meet, Place place);
  /// Lets all other threads that can run do so first.
  void Yield();

  /// Prints the error and the places of all threads, then aborts.
  [[noreturn]] void Fail(const char* what, Place place);

  static constexpr int kSyncwarp = 0;  // the only kind of meeting that orders memory

 private:
  Machine() = default;
  static Machine& Create();
  static void ThreadEntry();
  void CheckShared(Place place);
  void MakeThreads(int count);
  void RunBlock();
  void ExitThread();
  Thread* Pick();
  void SwitchToNext();
  void MakeReady(Thread* thread);
  void ReleaseLanes(int warp, unsigned lanes);
  void ReleaseBarrier();
  void FinishMeeting(int warp, int index, MeetingFunction meet);

  static inline constinit thread_local Machine* current_machine_ = nullptr;

  Grid grid_;
  uint3 block_{};
  Schedule schedule_;
  uint64_t random_ = 1;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* dynamic_shared_ = nullptr;

  Context launcher_;
  Thread* current_ = nullptr;  // null while the launcher runs
  int thread_count_ = 0;
  int live_ = 0;
  int ready_count_ = 0;
  uint64_t launch_order_ = 0;
  uint64_t exit_order_ = 0;
  Thread* ready_[kBlockThreadsMax] = {};  // last in, first out
  Thread threads_[kBlockThreadsMax] = {};
  Warp warps_[kBlockThreadsMax / kWarpLanes] = {};
  Barrier barrier_ = {};
  static constexpr int kSharedSlotsMax = 512;
  void* shared_[kSharedSlotsMax] = {};
  uint64_t runs_ = 0;
  uint64_t shared_run_[kSharedSlotsMax] = {};  // the last run that used the variable
  size_t static_bytes_ = 0;                    // static shared memory of this run's kernel
};

/// Sets the shared memory that the simulated device allows per block, static and dynamic together. REQUIRES:
/// no kernel runs.
void SetBlockSharedBytesMax(size_t bytes);

/// Registers a static __shared__ variable; called once per variable and process.
int NewSharedSlot(size_t bytes, size_t alignment);

}  // namespace numoe::cuda_host
