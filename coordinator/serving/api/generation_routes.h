// The routes that generate: OpenAI's chat and completions, Anthropic's messages, SGLang's generate.
//
// Each is the same task (generation_task.h) with another dialect: how requests are read and answers written.
// /v1/responses, whose answers are kept, is responses_routes.h's.
#pragma once

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_task.h"
#include "coordinator/serving/api/preparation_pool.h"

namespace numoe::serving {

/// All but the table outlive the server; `running` has each request while it is answered.
void AddGenerationRoutes(net::UrlTable& urls, const ApiDeps& deps, RunningTasks& running,
                         PreparationPool& preparers);

}  // namespace numoe::serving
