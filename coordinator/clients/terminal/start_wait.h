// AwaitStart: waits for a NUMoE server that is still loading its model.
//
// Such a server answers GET /health with 503, {"status": "starting", "detail": "..."} and knows no model yet.
// Another server, or one that is not there, is left to the request that comes next. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "coordinator/net/client/http_client.h"

namespace numoe::clients {

/// Returns once the server does not say that it is starting. `tell` gets what it is doing whenever that
/// changes, without control characters, and "" at the end if there was anything.
void AwaitStart(net::HttpClient& client, const std::function<void(std::string_view doing)>& tell,
                std::chrono::milliseconds between = std::chrono::milliseconds(500));

}  // namespace numoe::clients
