// TokenCounter: how many tokens a text is for the model under load.
//
// Either the server counts (POST /tokenize as vLLM, SGLang and llama.cpp have it), or a tokenizer read from a
// checkpoint on this machine does. Control tokens are not recognised and none are added: what counts is the
// text. Describe says which it is, for the report. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/net/client/http_client.h"

namespace numoe::clients {

class TokenCounter {
 public:
  virtual ~TokenCounter() = default;
  virtual absl::StatusOr<int> Count(std::string_view text) = 0;
  virtual std::string Describe() const = 0;
};

/// NOT_FOUND: the server has no /tokenize. `client` outlives the counter.
absl::StatusOr<std::unique_ptr<TokenCounter>> CountByServer(net::HttpClient& client,
                                                            const std::string& model);
/// Errors are those of Tokenizer::Load.
absl::StatusOr<std::unique_ptr<TokenCounter>> CountByTokenizer(const std::string& checkpoint);

}  // namespace numoe::clients
