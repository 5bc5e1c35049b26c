// /tokenize and /detokenize, as in vLLM: the tokens that the model would get for a text or a conversation,
// and the reverse.
//
// The PreparationPool's threads compute both answers, because a prompt may have megabytes. Nothing is stored
// between two requests.
#pragma once

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/preparation_pool.h"

namespace numoe::serving {

/// Everything except the table outlives the server.
void AddTokenRoutes(net::UrlTable& urls, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe::serving
