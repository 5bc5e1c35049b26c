// Chooses which of a kernel's legal executions the host runs, and where launches go.
//
// CUDA does not define the order in which blocks and threads advance, nor when an asynchronous copy completes
// between its issue and its wait. A kernel is correct only if its result is the same in all cases, so tests
// run each kernel under both extremes of each choice and under random mixes. The schedule is process-wide and
// read at the start of each launch; change it only while no launch runs. Any host thread may launch; each has
// its own machine (machine.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

struct CUstream_st;

namespace numoe::cuda_host {

enum class ThreadOrder { kAscending, kDescending, kRandom };
/// kLate: the copy is done at the wait, and the target holds poison until then. kEarly: it is done when
/// issued.
enum class CopyDelivery { kLate, kEarly, kRandom };

struct Schedule {
  ThreadOrder order = ThreadOrder::kAscending;
  CopyDelivery copies = CopyDelivery::kLate;
  uint64_t seed = 1;  // for the random choices

  std::string Name() const;
};

Schedule CurrentSchedule();
void SetSchedule(const Schedule& schedule);

/// Runs `body` under {ascending, descending} x {late, early} and under two random schedules, then restores
/// the previous schedule.
void RunUnderAllSchedules(const std::function<void()>& body);

/// Receives launches on streams other than the null stream: each is a closure that owns copies of its
/// arguments and may be run later, more than once and on another thread. Without a sink, and on the null
/// stream, a kernel has run when the launch returns. An empty function removes the sink.
using LaunchSink = std::function<void(CUstream_st* stream, std::function<void()> launch)>;
void SetLaunchSink(LaunchSink sink);

/// Runs the closure now or passes it to the sink.
void Dispatch(CUstream_st* stream, std::function<void()> launch);

}  // namespace numoe::cuda_host
