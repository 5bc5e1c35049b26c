// ResponsesRoutes: the routes of /v1/responses: answers are stored and can be read, continued, cancelled and
// deleted.
//
// Owns the stored answers (response_store.h) and the thread for answers in the background, for which no
// client waits. Stored answers may have megabytes, so the PreparationPool's threads read them. All arguments
// and everything in `deps` except the engine outlive this object, and this object outlives the server.
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
  /// Once this returns, nothing runs in the background any more. REQUIRES: the PreparationPool was stopped.
  void Stop();
  /// Drops answers that are not complete. REQUIRES: Stop() was called and the engine has ended.
  void DropWork();

 private:
  using Answer = void (ResponsesRoutes::*)(const std::shared_ptr<net::Exchange>&);
  using Accepted = std::function<void(const nlohmann::ordered_json&, const GenerationRequest&)>;
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
  /// `accepted` is called with the response that is answered at once, and its request; it is null unless the
  /// response is generated in the background.
  Dialect DialectOf(uint64_t owner, Accepted accepted);
  /// The input and output items of a complete response; nullopt if there is no such response.
  std::optional<nlohmann::ordered_json> Items(uint64_t owner, const std::string& id);

  const ApiDeps& deps_;
  RunningTasks& running_;
  PreparationPool& preparers_;
  ResponseStore responses_;
  std::unique_ptr<boost::asio::thread_pool> background_;  // for answers in the background
};

}  // namespace numoe::serving
