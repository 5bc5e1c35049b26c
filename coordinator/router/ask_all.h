// AskAll: the same request to several backends, and what they answered.
//
// Runs on the exchange's executor; `done` is called once there, unless the client goes away before. Answers
// come in the backends' order and are bounded; one that is too long, broken off or never came is not there.
// With `heads_only` their bodies are left unread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/net/http/exchange.h"
#include "coordinator/router/backends.h"

namespace numoe::router {

struct BackendReply {
  int backend = 0;
  int status = 0;
  std::string body;
};

struct AskAllOptions {
  std::string method, target, body;
  std::vector<int> backends;
  bool heads_only = false;
};

void AskAll(Backends& backends, const std::shared_ptr<net::Exchange>& exchange, AskAllOptions options,
            std::function<void(std::vector<BackendReply>)> done);

}  // namespace numoe::router
