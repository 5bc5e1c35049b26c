// /tokenize and /detokenize, as vLLM has them: what the model would see of a text or a conversation, and
// back.
//
// Both are made on the preparers' threads, because a prompt may be megabytes. Pure but for the routes.
#pragma once

#include "coordinator/api/api_deps.h"
#include "coordinator/api/preparation_pool.h"
#include "coordinator/http/router.h"

namespace numoe {

/// All but the router outlive the server.
void AddTokenRoutes(Router& router, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe
