// ApiService: every endpoint of the coordinator, as handlers for the router.
//
// Generation (OpenAI's chat and completions, ...), tokens, models and the server's state. The list of routes
// is in api_service.cc; /openapi.json describes it. Owns the threads that prepare requests or wait for
// workers. All of `deps` but the engine outlives it, and it outlives the server.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "coordinator/api/api_deps.h"
#include "coordinator/api/generation_task.h"
#include "coordinator/api/preparation_pool.h"
#include "coordinator/api/response_store.h"
#include "coordinator/http/router.h"

namespace numoe {

class ApiService {
 public:
  explicit ApiService(const ApiDeps& deps);
  ~ApiService();

  /// REQUIRES: the router outlives the server.
  void Register(Router& router);
  /// Nothing is prepared or waited for any more once it returns.
  void Stop();
  /// Drops unfinished work, and with it the connections that it holds. REQUIRES: Stop() was called, the
  /// engine has ended (it posts answers), and the server has not been destroyed.
  void DropWork();

 private:
  using Answer = void (ApiService::*)(const std::shared_ptr<Exchange>&);

  void AddGeneration(Router& router, const std::string& path, const std::string& summary,
                     const Dialect& dialect);
  void RegisterState(Router& router);
  void RegisterTokens(Router& router);
  void RegisterMessages(Router& router);
  void RegisterResponses(Router& router);

  void HealthGenerate(const std::shared_ptr<Exchange>& exchange);
  void Models(const std::shared_ptr<Exchange>& exchange);
  void OneModel(const std::shared_ptr<Exchange>& exchange);
  void ModelInfo(const std::shared_ptr<Exchange>& exchange);
  void ServerInfo(const std::shared_ptr<Exchange>& exchange);
  void ExpertStats(const std::shared_ptr<Exchange>& exchange);
  void Load(const std::shared_ptr<Exchange>& exchange);
  void ResetPrefixCache(const std::shared_ptr<Exchange>& exchange);
  void AbortRequest(const std::shared_ptr<Exchange>& exchange);
  void Tokenize(const std::shared_ptr<Exchange>& exchange);
  void Detokenize(const std::shared_ptr<Exchange>& exchange);
  void CountTokens(const std::shared_ptr<Exchange>& exchange);
  void CreateResponse(const std::shared_ptr<Exchange>& exchange);
  void GetResponse(const std::shared_ptr<Exchange>& exchange);
  void DeleteResponse(const std::shared_ptr<Exchange>& exchange);
  void CancelResponse(const std::shared_ptr<Exchange>& exchange);
  void ResponseInput(const std::shared_ptr<Exchange>& exchange);

  std::variant<nlohmann::ordered_json, ApiError> Cancelled(const HttpRequest& request);
  std::variant<nlohmann::ordered_json, ApiError> InputPage(const HttpRequest& request);
  void ReplyPrepared(const std::shared_ptr<Exchange>& exchange,
                     std::variant<nlohmann::ordered_json, ApiError> (ApiService::*make)(const HttpRequest&));
  void CreateInBackground(const std::shared_ptr<Exchange>& exchange, uint64_t owner);
  /// `accepted` is given the response that is answered at once; null: it is not made in the background.
  Dialect ResponsesDialect(uint64_t owner, std::function<void(const nlohmann::ordered_json&)> accepted);
  /// What a complete response was asked and answered with.
  std::optional<nlohmann::ordered_json> ResponseItems(uint64_t owner, const std::string& id);

  const ApiDeps& deps_;
  RunningTasks running_;
  ResponseStore responses_;
  std::once_flag openapi_made_;
  std::string openapi_;
  PreparationPool preparers_;
  std::optional<boost::asio::thread_pool> waiters_;     // for what waits for workers
  std::optional<boost::asio::thread_pool> background_;  // for answers that nobody waits for
};

}  // namespace numoe
