#include "coordinator/serving/api/preparation_pool.h"

#include <fmt/format.h>
#include <pthread.h>

#include <utility>

#include "common/base/check.h"

namespace numoe::serving {

PreparationPool::PreparationPool(int threads) {
  NUMOE_CHECK_GT(threads, 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), fmt::format("prepare-{}", i).c_str());
      Serve();
    });
  }
}

void PreparationPool::Add(const std::shared_ptr<net::Exchange>& exchange, Work work) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->OnGone([gone] { gone->store(true); });
  Put({.exchange = exchange, .slot = exchange->Slot(), .gone = gone, .work = std::move(work)});
}

void PreparationPool::AddRequest(const std::shared_ptr<net::Exchange>& exchange,
                                 std::shared_ptr<const std::atomic<bool>> gone, Work work) {
  Put({.exchange = exchange,
       .slot = exchange->Slot(),
       .gone = std::move(gone),
       .work = std::move(work),
       .counted = true});
}

void PreparationPool::Put(Job job) {
  NUMOE_CHECK(job.exchange != nullptr && job.gone != nullptr && job.work != nullptr);
  const net::Caller& caller = job.exchange->request().caller;
  const MutexLock lock(mutex_);
  if (stop_) return;
  if (job.counted) {
    engine::TenantLine& line = lines_[caller.tenant];
    ++line.requests;
    line.weight = caller.weight;
  }
  jobs_[caller.tenant].push_back(std::move(job));
  wake_.NotifyOne();
}

engine::TenantLines PreparationPool::Lines() const {
  const MutexLock lock(mutex_);
  return lines_;
}

void PreparationPool::CountOut(int tenant) {
  const auto line = lines_.find(tenant);
  NUMOE_CHECK(line != lines_.end() && line->second.requests > 0) << "tenant " << tenant;
  if (--line->second.requests == 0) lines_.erase(line);
}

PreparationPool::Job PreparationPool::TakeNext() {
  NUMOE_CHECK(!jobs_.empty());
  auto line = jobs_.upper_bound(last_);
  if (line == jobs_.end()) line = jobs_.begin();
  last_ = line->first;
  NUMOE_CHECK(!line->second.empty()) << "tenant " << last_;
  Job job = std::move(line->second.front());
  line->second.pop_front();
  if (line->second.empty()) jobs_.erase(line);
  return job;
}

void PreparationPool::Serve() {
  for (;;) {
    Job job;
    {
      const MutexLock lock(mutex_);
      while (!stop_ && jobs_.empty()) wake_.Wait(mutex_);
      if (stop_) return;
      job = TakeNext();
    }
    Run(job);
    if (!job.counted) continue;
    const int tenant = job.exchange->request().caller.tenant;
    const MutexLock lock(mutex_);
    CountOut(tenant);
  }
}

// Frees the slot before the client can get its answer, because it may then send its next request at once.
void PreparationPool::Run(Job& job) {
  Then then = job.gone->load() ? nullptr : job.work();
  job.work = nullptr;
  job.slot.reset();
  if (then != nullptr) job.exchange->Post(std::move(then));
}

void PreparationPool::Stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    wake_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // Destroyed after the lock is released: a job may hold the last reference to a connection and end it.
  std::map<int, std::deque<Job>> dropped;
  const MutexLock lock(mutex_);
  dropped.swap(jobs_);
}

}  // namespace numoe::serving
