#include "coordinator/execution/transport/memory_retirer.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace numoe::execution {
namespace {

using Memories = std::vector<std::shared_ptr<ExpertMemory>>;

// How often memory that is in use, or may not be retired just now, is looked at again.
constexpr std::chrono::milliseconds kRetireInterval(5);

// Returns those that are still in use.
Memories RetireUnused(Memories memories) {
  Memories used;
  for (std::shared_ptr<ExpertMemory>& memory : memories)
    if (!memory->Retire()) used.push_back(std::move(memory));  // unpinning many pages takes a while
  return used;
}

}  // namespace

MemoryRetirer::MemoryRetirer() : thread_([this] { Run(); }) {}

MemoryRetirer::~MemoryRetirer() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void MemoryRetirer::Add(std::shared_ptr<ExpertMemory> memory) {
  NUMOE_CHECK(memory != nullptr);
  const MutexLock lock(mutex_);
  memories_.push_back(std::move(memory));
  changed_.NotifyAll();
}

void MemoryRetirer::Hold() {
  const MutexLock lock(mutex_);
  NUMOE_CHECK(!held_) << "a call begins before the last one has ended";
  held_ = true;
  while (retiring_) idle_.Wait(mutex_);
}

// Wakes nobody: a layer's call ends here, and the thread looks again soon enough.
void MemoryRetirer::Allow() {
  const MutexLock lock(mutex_);
  held_ = false;
}

void MemoryRetirer::Run() {
  pthread_setname_np(pthread_self(), "worker-retire");
  MutexLock lock(mutex_);
  while (!stop_) {
    if (memories_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!held_) {
      Memories lost = std::exchange(memories_, {});
      retiring_ = true;
      lock.Unlock();
      Memories used = RetireUnused(std::move(lost));
      lock.Lock();
      memories_.insert(memories_.end(), used.begin(), used.end());
      retiring_ = false;
      idle_.NotifyAll();
    }
    const auto next_look = std::chrono::steady_clock::now() + kRetireInterval;
    while (!stop_ && changed_.WaitUntil(mutex_, next_look)) {
    }
  }
}

}  // namespace numoe::execution
