// Answers a request with a JSON document, status 200.
//
// For routes whose answers are small and whole; generated answers are written by the writers of each dialect.
// Called on the thread that serves the exchange, as Exchange::Reply is.
#pragma once

#include <memory>

#include "coordinator/net/http/exchange.h"
#include "coordinator/serving/api/sse.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

inline void ReplyJson(const std::shared_ptr<net::Exchange>& exchange, const nlohmann::ordered_json& json) {
  exchange->Reply({.body = DumpJson(json)});
}

}  // namespace numoe::serving
