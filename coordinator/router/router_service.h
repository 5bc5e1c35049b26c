// RouterService: the router's routes: which are forwarded to one backend, which are asked of all, and which
// it answers itself.
//
// CONTRACT.md has the table. Reads prompts on threads of its own, because a long one takes milliseconds.
// Everything it is given outlives it, and it outlives the server.
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
  /// From now on requests are refused and /health says so.
  void Drain() { draining_ = true; }
  /// No prompt is read any more once it returns.
  void Stop();

 private:
  using Merge = std::string (*)(const std::vector<NamedReply>&);

  void RegisterOwn(net::UrlTable& urls);
  void RegisterForwarded(net::UrlTable& urls);
  void RegisterMerged(net::UrlTable& urls);

  void Health(const std::shared_ptr<net::Exchange>& exchange);
  /// To whoever computed the prompt's beginning, or has least to do.
  void ByPrompt(const std::shared_ptr<net::Exchange>& exchange);
  /// To whoever has least to do.
  void Anywhere(const std::shared_ptr<net::Exchange>& exchange);
  /// To whoever keeps the answer of this id.
  void ByResponse(const std::shared_ptr<net::Exchange>& exchange, const std::string& id);
  void AskEverybody(const std::shared_ptr<net::Exchange>& exchange, Merge merge, bool command);
  void Place(const std::shared_ptr<net::Exchange>& exchange, PromptPrefix prompt);
  /// Who keeps an answer: as remembered, or asked of all. None: nobody.
  void Locate(const std::shared_ptr<net::Exchange>& exchange, const std::string& id,
              std::function<void(std::optional<int>)> then);
  /// True: told that the router is ending.
  bool Refused(const std::shared_ptr<net::Exchange>& exchange);

  Backends& backends_;
  Metrics& metrics_;
  std::atomic<bool> draining_{false};
  boost::asio::thread_pool readers_;
};

}  // namespace numoe::router
