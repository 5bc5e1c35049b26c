// PreparationPool: the threads that read and prepare requests, and the queue of requests that wait for them.
//
// The queue is fair: tenants take turns, so that a thousand prompts of one key do not delay the one prompt of
// another key. A job is skipped if its client has gone. Until its turn comes it keeps its request's
// concurrency slot, so that no client can fill the queue by sending requests and leaving. Thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/engine/scheduler/tenant_lines.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::serving {

class PreparationPool {
 public:
  /// The rest of a job, which runs on the exchange's executor.
  using Then = std::function<void()>;
  using Work = std::function<Then()>;

  explicit PreparationPool(int threads);
  ~PreparationPool() { Stop(); }

  /// Adds work that does not become a sequence. Sets the exchange's OnGone. Call it on the exchange's
  /// executor.
  void Add(const std::shared_ptr<net::Exchange>& exchange, Work work);
  /// Adds a request to the engine, which counts in Lines until it is prepared. `gone` is set when no client
  /// waits for it any more.
  void AddRequest(const std::shared_ptr<net::Exchange>& exchange,
                  std::shared_ptr<const std::atomic<bool>> gone, Work work);
  /// The requests to the engine that wait here or are being prepared.
  engine::TenantLines Lines() const;
  /// Once this returns, nothing is prepared any more, and waiting jobs are dropped.
  void Stop();

 private:
  struct Job {
    std::shared_ptr<net::Exchange> exchange;
    std::shared_ptr<void> slot;
    std::shared_ptr<const std::atomic<bool>> gone;
    Work work;
    bool counted = false;
  };

  void Put(Job job);
  void Serve();
  static void Run(Job& job);
  Job TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountOut(int tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar wake_;
  std::map<int, std::deque<Job>> jobs_ ABSL_GUARDED_BY(mutex_);  // by tenant; none is empty
  int last_ ABSL_GUARDED_BY(mutex_) = -1;                        // the tenant whose turn was last
  engine::TenantLines lines_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace numoe::serving
