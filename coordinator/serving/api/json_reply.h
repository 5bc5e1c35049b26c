// Answers a request with a JSON document, status 200.
//
// For routes whose answers are small and complete; generated answers are written by the writers of each
// dialect. Must be called on the exchange's executor, like Exchange::Reply.
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
