// ApiService: every endpoint of the coordinator, as handlers for a UrlTable.
//
// Puts the groups of routes together and owns what they share: the requests that run and the threads that
// prepare them. /openapi.json, which is answered here, describes all routes. All of `deps` but the engine
// outlives it, and it outlives the server.
#pragma once

#include <mutex>
#include <string>

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_task.h"
#include "coordinator/serving/api/preparation_pool.h"
#include "coordinator/serving/api/responses_routes.h"
#include "coordinator/serving/api/state_routes.h"

namespace numoe::serving {

class ApiService {
 public:
  explicit ApiService(const ApiDeps& deps);
  ~ApiService();

  /// REQUIRES: the table outlives the server.
  void Register(net::UrlTable& urls);
  /// Nothing is prepared or waited for any more once it returns.
  void Stop();
  /// Drops unfinished work, and with it the connections that it holds. REQUIRES: Stop() was called, the
  /// engine has ended (it posts answers), and the server has not been destroyed.
  void DropWork();

 private:
  void AddOpenApi(net::UrlTable& urls);

  const ApiDeps& deps_;
  RunningTasks running_;
  PreparationPool preparers_;
  ResponsesRoutes responses_;
  StateRoutes state_;
  std::once_flag openapi_made_;
  std::string openapi_;
};

}  // namespace numoe::serving
