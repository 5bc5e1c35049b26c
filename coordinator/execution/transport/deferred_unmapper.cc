#include "coordinator/execution/transport/deferred_unmapper.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace numoe::execution {
namespace {

using Memories = std::vector<std::shared_ptr<ExpertMemory>>;

// How often the thread tries again to unmap memory that is in use, or that may not be unmapped during a call.
constexpr std::chrono::milliseconds kRetryInterval(5);

// Returns the memories that are still in use.
Memories UnmapUnused(Memories memories) {
  Memories used;
  for (std::shared_ptr<ExpertMemory>& memory : memories)
    if (!memory->Unmap()) used.push_back(std::move(memory));  // unpinning many pages takes a while
  return used;
}

}  // namespace

DeferredUnmapper::DeferredUnmapper() : thread_([this] { Run(); }) {}

DeferredUnmapper::~DeferredUnmapper() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void DeferredUnmapper::Add(std::shared_ptr<ExpertMemory> memory) {
  NUMOE_CHECK(memory != nullptr);
  const MutexLock lock(mutex_);
  memories_.push_back(std::move(memory));
  changed_.NotifyAll();
}

void DeferredUnmapper::Hold() {
  const MutexLock lock(mutex_);
  NUMOE_CHECK(!held_) << "a call begins before the last one has ended";
  held_ = true;
  while (unmapping_) idle_.Wait(mutex_);
}

// Does not wake the thread: this is called for every layer, and the thread soon tries again by itself.
void DeferredUnmapper::Allow() {
  const MutexLock lock(mutex_);
  held_ = false;
}

void DeferredUnmapper::Run() {
  pthread_setname_np(pthread_self(), "worker-unmap");
  MutexLock lock(mutex_);
  while (!stop_) {
    if (memories_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!held_) {
      Memories lost = std::exchange(memories_, {});
      unmapping_ = true;
      lock.Unlock();
      Memories used = UnmapUnused(std::move(lost));
      lock.Lock();
      memories_.insert(memories_.end(), used.begin(), used.end());
      unmapping_ = false;
      idle_.NotifyAll();
    }
    const auto retry_at = std::chrono::steady_clock::now() + kRetryInterval;
    while (!stop_ && changed_.WaitUntil(mutex_, retry_at)) {
    }
  }
}

}  // namespace numoe::execution
