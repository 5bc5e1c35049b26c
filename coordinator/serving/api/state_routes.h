// StateRoutes: routes about the server's state (health, models, load) and commands for operators.
//
// The thread that has received a request answers it at once. Only /expert_stats waits for the workers, on its
// own thread, because each worker may take a second. `running` and everything in `deps` except the engine
// outlive this object, and this object outlives the server.
#pragma once

#include <memory>

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_task.h"

namespace boost::asio {
class thread_pool;
}

namespace numoe::serving {

class StateRoutes {
 public:
  StateRoutes(const ApiDeps& deps, RunningTasks& running);
  ~StateRoutes();

  void Register(net::UrlTable& urls);
  /// Once this returns, nothing waits for workers any more.
  void Stop();
  /// Drops requests that have waited. REQUIRES: Stop() was called.
  void DropWork();

 private:
  using Answer = void (StateRoutes::*)(const std::shared_ptr<net::Exchange>&);

  void HealthGenerate(const std::shared_ptr<net::Exchange>& exchange);
  void Models(const std::shared_ptr<net::Exchange>& exchange);
  void OneModel(const std::shared_ptr<net::Exchange>& exchange);
  void ModelInfo(const std::shared_ptr<net::Exchange>& exchange);
  void ServerInfo(const std::shared_ptr<net::Exchange>& exchange);
  void ExpertStats(const std::shared_ptr<net::Exchange>& exchange);
  void Load(const std::shared_ptr<net::Exchange>& exchange);
  void ResetPrefixCache(const std::shared_ptr<net::Exchange>& exchange);
  void AbortRequest(const std::shared_ptr<net::Exchange>& exchange);

  const ApiDeps& deps_;
  RunningTasks& running_;
  std::unique_ptr<boost::asio::thread_pool> waiters_;  // waits for workers; null after DropWork
};

}  // namespace numoe::serving
