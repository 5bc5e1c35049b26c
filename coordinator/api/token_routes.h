// /tokenize and /detokenize, as vLLM has them: what the model would see of a text or a conversation, and
// back.
//
// The preparers' threads compute both answers, because a prompt may have megabytes. Nothing is kept between
// two requests.
#pragma once

#include "coordinator/api/api_deps.h"
#include "coordinator/api/preparation_pool.h"
#include "coordinator/http/router.h"

namespace numoe {

/// All but the router outlive the server.
void AddTokenRoutes(Router& router, const ApiDeps& deps, PreparationPool& preparers);

}  // namespace numoe
