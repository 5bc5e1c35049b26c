// ListModels: the models that a server offers (GET /v1/models).
//
// Every OpenAI-compatible server answers this request, so clients send it first: it shows that the server is
// there, that the key is right, and which name to put into requests. Errors are those of HttpClient::FetchOk,
// or INVALID_ARGUMENT if the reply is not a list of models. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/net/client/http_client.h"

namespace numoe::net {

struct ModelCard {
  std::string id;
  int64_t max_model_len = 0;  // tokens; 0: the server does not say
};

/// Returns at least one model.
absl::StatusOr<std::vector<ModelCard>> ListModels(HttpClient& client);

}  // namespace numoe::net
