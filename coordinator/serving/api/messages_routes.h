// /v1/messages/count_tokens: the length of a conversation as a prompt.
//
// Belongs to Anthropic's API; /v1/messages itself is in generation_routes.h. The conversation is prepared on
// the threads of the PreparationPool, as any request is, because a prompt may have megabytes.
#pragma once

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/preparation_pool.h"

namespace numoe::serving {

/// Everything except the table outlives the server.
void AddMessagesRoutes(net::UrlTable& urls, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe::serving
