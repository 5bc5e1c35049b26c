#include "common/threading/caller_threads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/threading/thread_binding.h"

namespace numoe {

const std::vector<int>& CallerThreads::Cpus() const { return callers_.size() == 1 ? alone_ : several_; }

bool CallerThreads::bound() const {
  const MutexLock lock(mutex_);
  std::vector<int> wanted = Cpus();
  std::sort(wanted.begin(), wanted.end());
  for (const pthread_t thread : callers_)
    if (CpusOfThread(thread) != wanted) return false;
  return true;
}

void CallerThreads::MoveTo(std::vector<int> alone) {
  const MutexLock lock(mutex_);
  alone_ = std::move(alone);
  if (callers_.size() == 1) Bind(callers_.front());
}

void CallerThreads::Add(pthread_t thread) {
  const MutexLock lock(mutex_);
  callers_.push_back(thread);
  if (callers_.size() == 2) Bind(callers_.front());  // the first caller was the only one until now
  Bind(callers_.back());
}

void CallerThreads::Remove(pthread_t thread) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(callers_.begin(), callers_.end(),
                                  [&](pthread_t caller) { return pthread_equal(caller, thread) != 0; });
  NUMOE_CHECK(found != callers_.end());
  callers_.erase(found);
  if (callers_.size() == 1) Bind(callers_.front());
}

void CallerThreads::Bind(pthread_t thread) {
  NUMOE_DCHECK(!callers_.empty());
  const bool refused = !BindThread(thread, Cpus());
  if (refused && !refused_) {
    LogWarning(
        "the kernel refuses to bind the thread of a session to the CPUs {}, so it computes unbound, which is "
        "slower; has the cpuset shrunk since the start? This is logged once until binding works again",
        fmt::join(Cpus(), ","));
  }
  refused_ = refused;
}

ScopedCaller::ScopedCaller(CallerThreads* callers)
    : callers_(callers), before_(callers == nullptr ? std::vector<int>() : CpusOfThisThread()) {
  if (callers_ != nullptr) callers_->Add(pthread_self());
}

ScopedCaller::~ScopedCaller() {
  if (callers_ == nullptr) return;
  callers_->Remove(pthread_self());
  BindThread(pthread_self(), before_);
}

}  // namespace numoe
