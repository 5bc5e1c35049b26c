// Binding threads to CPUs, which needs no privilege. The kernel refuses CPUs outside the process's cpuset.
//
// ScopedThreadBinding binds the calling thread to CPUs, and to its former CPUs again when it is destroyed.
// Memory that the thread first writes in between is allocated on the node of those CPUs.
// REQUIRES: it is destroyed on the thread that created it.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <vector>

namespace numoe {

/// Returns false if the kernel refuses; the thread then keeps its CPUs.
bool BindThread(pthread_t thread, const std::vector<int>& cpus);
/// Returns the CPUs that a thread may run on, ascending; empty if the kernel does not tell them.
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
