// Which of the legal executions of a kernel the host twin runs, and where launches go.
//
// CUDA leaves open in which order blocks and threads advance and when an asynchronous copy lands between its
// issue and its wait. A kernel is right only if its result is the same in all of them, so tests run each
// kernel under both extremes of each choice and one random mix. Process-wide, read at the start of each
// launch; change it only while no launch runs. Any host thread may launch; each has its own machine
// (machine.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

struct CUstream_st;

namespace numoe::cuda_host {

enum class ThreadOrder { kAscending, kDescending, kRandom };
/// kLate: the target holds poison until the wait, and the source is read only then. kEarly: at the issue.
enum class CopyDelivery { kLate, kEarly, kRandom };

struct Schedule {
  ThreadOrder order = ThreadOrder::kAscending;
  CopyDelivery copies = CopyDelivery::kLate;
  uint64_t seed = 1;  // of the random choices

  std::string Name() const;
};

Schedule CurrentSchedule();
void SetSchedule(const Schedule& schedule);

/// Runs `body` under {ascending, descending} x {late, early} and under two random schedules, then restores
/// the schedule it found.
void RunUnderAllSchedules(const std::function<void()>& body);

/// Takes over launches on a stream that is not null: it gets the launch as a closure that owns copies of its
/// arguments and may be run later, more than once and on another thread. Without a sink, and on the null
/// stream, a launch has run when the launch word returns. An empty function removes the sink.
using LaunchSink = std::function<void(CUstream_st* stream, std::function<void()> launch)>;
void SetLaunchSink(LaunchSink sink);

/// Runs the closure now or hands it to the sink.
void Dispatch(CUstream_st* stream, std::function<void()> launch);

}  // namespace numoe::cuda_host
