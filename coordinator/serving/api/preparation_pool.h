// PreparationPool: the threads that read and prepare requests, and the line in front of them.
//
// The line is fair: tenants take turns, so that one key's thousand prompts do not hold up another's one. A
// job is skipped when its client has gone; until its turn it holds its request's place among those of its
// key, so that nobody fills the line by asking and leaving. Thread-safe.
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
  /// What a job leaves to be done on the exchange's executor.
  using Then = std::function<void()>;
  using Work = std::function<Then()>;

  explicit PreparationPool(int threads);
  ~PreparationPool() { Stop(); }

  /// For work that no sequence follows. Takes the exchange's OnGone. On the exchange's executor.
  void Add(const std::shared_ptr<net::Exchange>& exchange, Work work);
  /// For a request to the engine, which counts in Lines until it is prepared. `gone`: set when nobody waits
  /// for it any more.
  void AddRequest(const std::shared_ptr<net::Exchange>& exchange,
                  std::shared_ptr<const std::atomic<bool>> gone, Work work);
  /// The requests to the engine that wait here or are being prepared.
  engine::TenantLines Lines() const;
  /// Nothing is prepared any more once it returns, and what waited is dropped.
  void Stop();

 private:
  struct Job {
    std::shared_ptr<net::Exchange> exchange;
    std::shared_ptr<void> place;
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
