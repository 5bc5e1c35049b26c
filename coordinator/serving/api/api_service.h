// ApiService: every endpoint of the coordinator, as handlers for a UrlTable.
//
// Combines the groups of routes and owns what they share: the list of running requests and the threads that
// prepare requests. It answers /openapi.json, which describes all routes. Everything in `deps` except the
// engine outlives this object, and this object outlives the server.
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
  /// Once this returns, no request is prepared and nothing waits for workers any more.
  void Stop();
  /// Drops unfinished work, and with it the connections that the work holds. REQUIRES: Stop() was called, the
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
