// The routes that generate: OpenAI's chat and completions, Anthropic's messages, SGLang's generate.
//
// All run the same task (generation_task.h) with different dialects, which read requests and write answers.
// /v1/responses, whose answers are stored, is in responses_routes.h.
#pragma once

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_task.h"
#include "coordinator/serving/api/preparation_pool.h"

namespace numoe::serving {

/// Everything except the table outlives the server; `running` contains each request while it is answered.
void AddGenerationRoutes(net::UrlTable& urls, const ApiDeps& deps, RunningTasks& running,
                         PreparationPool& preparers);

}  // namespace numoe::serving
