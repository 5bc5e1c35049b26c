// /v1/messages/count_tokens: how long a conversation would be as a prompt.
//
// Anthropic's question beside /v1/messages, which generation_routes.h answers. Prepared as any request, on
// the preparers' threads, because a prompt may be megabytes.
#pragma once

#include "coordinator/api/api_deps.h"
#include "coordinator/api/preparation_pool.h"
#include "coordinator/http/router.h"

namespace numoe {

/// All but the router outlive the server.
void AddMessagesRoutes(Router& router, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe
