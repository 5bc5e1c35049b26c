// /tokenize and /detokenize, as vLLM has them: what the model would see of a text or a conversation, and
// back.
//
// The preparers' threads compute both answers, because a prompt may have megabytes. Nothing is kept between
// two requests.
#pragma once

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/preparation_pool.h"

namespace numoe::serving {

/// All but the table outlive the server.
void AddTokenRoutes(net::UrlTable& urls, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe::serving
