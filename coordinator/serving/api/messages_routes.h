// /v1/messages/count_tokens: how long a conversation would be as a prompt.
//
// Anthropic's question beside /v1/messages, which generation_routes.h answers. Prepared as any request, on
// the preparers' threads, because a prompt may be megabytes.
#pragma once

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/preparation_pool.h"

namespace numoe::serving {

/// All but the table outlive the server.
void AddMessagesRoutes(net::UrlTable& urls, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe::serving
