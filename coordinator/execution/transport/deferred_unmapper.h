// DeferredUnmapper: unmaps the weights of lost workers as soon as no step uses them.
//
// A mapping keeps a lost worker's pages allocated, and the restarted worker needs as many (expert_memory.h).
// Unpinning hundreds of GiB may take many seconds and may wait for the device, which in turn may wait for a
// worker's reply. So a separate thread does it, and only between calls: the caller holds the unmapper during
// a call. Any thread adds memory; only the engine thread holds the unmapper and allows it to continue. The
// mutex is never held while another one is locked.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/execution/transport/expert_memory.h"

namespace numoe::execution {

class DeferredUnmapper {
 public:
  DeferredUnmapper();
  ~DeferredUnmapper();
  DeferredUnmapper(const DeferredUnmapper&) = delete;
  DeferredUnmapper& operator=(const DeferredUnmapper&) = delete;

  /// Unmaps the memory as soon as it is not in use and the unmapper is not held.
  void Add(std::shared_ptr<ExpertMemory> memory);
  /// Unmaps nothing more until Allow, and waits for unmapping that has begun. REQUIRES: not held.
  void Hold();
  /// Ends Hold. May also be called when the unmapper is not held.
  void Allow();

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;  // memory was added, or the thread has to end
  CondVar idle_;     // nothing is being unmapped any more
  std::vector<std::shared_ptr<ExpertMemory>> memories_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool unmapping_ ABSL_GUARDED_BY(mutex_) = false;  // the mutex is not held during it
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::execution
