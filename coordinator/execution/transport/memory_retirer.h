// MemoryRetirer: lets go of the weights of workers that were lost, once no step uses them.
//
// A mapping keeps a lost worker's pages, and the worker that comes back needs as many (expert_memory.h). To
// unpin hundreds of GiB may take many seconds and may wait for the device, which in turn may wait for a
// worker's reply. So a thread of its own does it, and only between calls: whoever makes calls holds the
// retirer meanwhile. Any thread adds memory; one thread, the engine's, holds the retirer and lets it go on.
// The mutex is never held while another one is taken.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/execution/transport/expert_memory.h"

namespace numoe::execution {

class MemoryRetirer {
 public:
  MemoryRetirer();
  ~MemoryRetirer();
  MemoryRetirer(const MemoryRetirer&) = delete;
  MemoryRetirer& operator=(const MemoryRetirer&) = delete;

  /// Retires the memory as soon as nobody uses it and the retirer is not held.
  void Add(std::shared_ptr<ExpertMemory> memory);
  /// Retires nothing more until Allow; waits for what is just being retired. REQUIRES: not held.
  void Hold();
  /// May be called when the retirer is not held.
  void Allow();

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;  // memory was added, or the thread has to end
  CondVar idle_;     // nothing is being retired any more
  std::vector<std::shared_ptr<ExpertMemory>> memories_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool retiring_ ABSL_GUARDED_BY(mutex_) = false;  // without the mutex
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::execution
