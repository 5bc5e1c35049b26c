#include "tests/cuda_host/schedule.h"

#include <mutex>
#include <utility>

namespace numoe::cuda_host {
namespace {

std::mutex mutex;
Schedule schedule_now;
LaunchSink sink_now;

}  // namespace

std::string Schedule::Name() const {
  constexpr const char* kOrders[] = {"ascending", "descending", "random"};
  constexpr const char* kCopies[] = {"late", "early", "random"};
  return std::string(kOrders[static_cast<int>(order)]) + " threads, " + kCopies[static_cast<int>(copies)] +
         " copies, seed " + std::to_string(seed);
}

Schedule CurrentSchedule() {
  const std::lock_guard lock(mutex);
  return schedule_now;
}

void SetSchedule(const Schedule& schedule) {
  const std::lock_guard lock(mutex);
  schedule_now = schedule;
}

void RunUnderAllSchedules(const std::function<void()>& body) {
  const Schedule found = CurrentSchedule();
  for (const CopyDelivery copies : {CopyDelivery::kLate, CopyDelivery::kEarly}) {
    for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
      SetSchedule({.order = order, .copies = copies});
      body();
    }
  }
  for (const uint64_t seed : {1, 2}) {
    SetSchedule({.order = ThreadOrder::kRandom, .copies = CopyDelivery::kRandom, .seed = seed});
    body();
  }
  SetSchedule(found);
}

void SetLaunchSink(LaunchSink sink) {
  const std::lock_guard lock(mutex);
  sink_now = std::move(sink);
}

void Dispatch(CUstream_st* stream, std::function<void()> launch) {
  LaunchSink sink;
  if (stream != nullptr) {
    const std::lock_guard lock(mutex);
    sink = sink_now;
  }
  if (sink) {
    sink(stream, std::move(launch));
  } else {
    launch();
  }
}

}  // namespace numoe::cuda_host
