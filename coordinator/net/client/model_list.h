// The models a server says it has (GET /v1/models).
//
// Every OpenAI-compatible server answers this, which makes it the first thing to ask: it shows that the
// server is there, that the key is right, and which name to put into requests. Errors are
// HttpClient::FetchOk's, or INVALID_ARGUMENT where the reply is no list of models. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/net/client/http_client.h"

namespace numoe::net {

struct ModelCard {
  std::string id;
  int64_t max_model_len = 0;  // tokens; 0: not said
};

/// At least one.
absl::StatusOr<std::vector<ModelCard>> ListModels(HttpClient& client);

}  // namespace numoe::net
