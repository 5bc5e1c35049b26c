// ResponsesRoutes: /v1/responses: answers that are kept, and can be asked for, gone on from, cancelled and
// deleted.
//
// Owns what is kept (response_store.h) and the thread of answers that nobody waits for, which are made in the
// background. What is kept may be megabytes, so it is read on the preparers' threads. All that it is given,
// but the engine of `deps`, outlives it, and it outlives the server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_task.h"
#include "coordinator/serving/api/preparation_pool.h"
#include "coordinator/serving/api/response_store.h"

namespace boost::asio {
class thread_pool;
}

namespace numoe::serving {

class ResponsesRoutes {
 public:
  ResponsesRoutes(const ApiDeps& deps, RunningTasks& running, PreparationPool& preparers);
  ~ResponsesRoutes();

  void Register(net::UrlTable& urls);
  /// Nothing is done in the background any more once it returns. REQUIRES: the preparers were stopped.
  void Stop();
  /// Drops answers that are not complete. REQUIRES: Stop() was called and the engine has ended.
  void DropWork();

 private:
  using Answer = void (ResponsesRoutes::*)(const std::shared_ptr<net::Exchange>&);
  using Made = std::variant<nlohmann::ordered_json, net::ApiError>;

  void Create(const std::shared_ptr<net::Exchange>& exchange);
  void CreateInBackground(const std::shared_ptr<net::Exchange>& exchange, uint64_t owner);
  void Get(const std::shared_ptr<net::Exchange>& exchange);
  void Delete(const std::shared_ptr<net::Exchange>& exchange);
  void Cancel(const std::shared_ptr<net::Exchange>& exchange);
  void Input(const std::shared_ptr<net::Exchange>& exchange);
  void Count(const std::shared_ptr<net::Exchange>& exchange);

  Made Cancelled(const net::HttpRequest& request);
  Made InputPage(const net::HttpRequest& request);
  Made Counted(const net::HttpRequest& request);
  void ReplyPrepared(const std::shared_ptr<net::Exchange>& exchange,
                     Made (ResponsesRoutes::*make)(const net::HttpRequest& request));
  /// `accepted` is given the response that is answered at once; null: it is not made in the background.
  Dialect DialectOf(uint64_t owner, std::function<void(const nlohmann::ordered_json&)> accepted);
  /// What a complete response was asked and answered with.
  std::optional<nlohmann::ordered_json> Items(uint64_t owner, const std::string& id);

  const ApiDeps& deps_;
  RunningTasks& running_;
  PreparationPool& preparers_;
  ResponseStore responses_;
  std::unique_ptr<boost::asio::thread_pool> background_;  // for answers that nobody waits for; null: dropped
};

}  // namespace numoe::serving
