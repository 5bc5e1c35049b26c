// Binding threads to CPUs. Needs no privilege; the kernel refuses CPUs outside the process's cpuset.
//
// ScopedThreadBinding binds the calling thread and gives it back its old CPUs when destroyed: memory that is
// first touched meanwhile lies on those CPUs' node. Must be destroyed on the thread that made it.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <vector>

namespace numoe {

/// False: refused, the thread runs where it ran before.
bool BindThread(pthread_t thread, const std::vector<int>& cpus);
/// The CPUs that a thread may run on, ascending; none where the kernel does not say.
std::vector<int> CpusOfThread(pthread_t thread);
std::vector<int> CpusOfThisThread();

class ScopedThreadBinding {
 public:
  explicit ScopedThreadBinding(const std::vector<int>& cpus);
  ScopedThreadBinding(const ScopedThreadBinding&) = delete;
  ScopedThreadBinding& operator=(const ScopedThreadBinding&) = delete;
  ~ScopedThreadBinding();

 private:
  const std::vector<int> before_;
};

}  // namespace numoe
