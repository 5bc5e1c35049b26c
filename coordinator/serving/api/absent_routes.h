// Routes of other servers that this one does not have: what their 404 says.
//
// A client that asks for embeddings, scores, audio or images, or that speaks Ollama's API, gets a sentence
// with the reason and with what to use instead. Nothing is registered: these paths stay unknown, and
// /openapi.json does not list them.
#pragma once

#include "coordinator/net/http/url_table.h"

namespace numoe::serving {

void ExplainAbsentRoutes(net::UrlTable& urls);

}  // namespace numoe::serving
