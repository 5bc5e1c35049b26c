// AskAll: sends the same request to several backends and collects their answers.
//
// AskAll runs on the exchange's executor and calls `done` there once, unless the client disconnects before.
// The answers are sorted by backend and their length is limited; an answer that is too long, incomplete or
// missing is left out. With `heads_only` the bodies are not read.
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
