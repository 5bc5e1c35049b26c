// AwaitStart: waits for a NUMoE server that is still loading its model.
//
// Such a server answers GET /health with 503 and {"status": "starting", "detail": "..."}, and has no model
// yet. If another server answers, or none, the caller's next request finds that out. For use by one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "coordinator/net/client/http_client.h"

namespace numoe::clients {

/// Returns when the server no longer says that it is starting. Calls `tell` with what the server is doing,
/// without control characters, whenever that changes, and with "" at the end if it was called before.
void AwaitStart(net::HttpClient& client, const std::function<void(std::string_view doing)>& tell,
                std::chrono::milliseconds between = std::chrono::milliseconds(500));

}  // namespace numoe::clients
