// RouterService: the router's routes. Some are forwarded to one backend, some are sent to all backends, and
// some the router answers itself.
//
// CONTRACT.md has the table. The service parses prompts on its own threads, because a long prompt takes
// milliseconds. The constructor's arguments outlive the service, and the service outlives the server.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/observe/metrics.h"
#include "coordinator/net/http/url_table.h"
#include "coordinator/router/ask_all.h"
#include "coordinator/router/backends.h"
#include "coordinator/router/merged_replies.h"

namespace numoe::router {

class RouterService {
 public:
  RouterService(Backends& backends, Metrics& metrics);
  ~RouterService();

  void Register(net::UrlTable& urls);
  /// Refuses requests that arrive after this call; /health reports "draining".
  void Drain() { draining_ = true; }
  /// Waits for the prompts that are being parsed; afterwards none is parsed.
  void Stop();

 private:
  using Merge = std::string (*)(const std::vector<NamedReply>&);

  void RegisterOwn(net::UrlTable& urls);
  void RegisterForwarded(net::UrlTable& urls);
  void RegisterMerged(net::UrlTable& urls);

  void Health(const std::shared_ptr<net::Exchange>& exchange);
  /// Forwards to the backend that computed the prompt's beginning, or to the one with the least load.
  void ByPrompt(const std::shared_ptr<net::Exchange>& exchange);
  /// Forwards to the backend with the least load.
  void Anywhere(const std::shared_ptr<net::Exchange>& exchange);
  /// Forwards to the backend that keeps the answer with this id.
  void ByResponse(const std::shared_ptr<net::Exchange>& exchange, const std::string& id);
  void AskEverybody(const std::shared_ptr<net::Exchange>& exchange, Merge merge, bool command);
  void Forward(const std::shared_ptr<net::Exchange>& exchange, PromptPrefix prompt);
  /// Finds the backend that keeps an answer: from memory, or by asking all. nullopt if none keeps it.
  void Locate(const std::shared_ptr<net::Exchange>& exchange, const std::string& id,
              std::function<void(std::optional<int>)> then);
  /// Refuses the request and returns true if the router is draining.
  bool Refused(const std::shared_ptr<net::Exchange>& exchange);

  Backends& backends_;
  Metrics& metrics_;
  std::atomic<bool> draining_{false};
  boost::asio::thread_pool readers_;
};

}  // namespace numoe::router
