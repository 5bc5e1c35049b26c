// TokenCounter: counts the tokens of a text for the model under load.
//
// Either the server counts (POST /tokenize in the formats of vLLM, SGLang and llama.cpp), or a tokenizer from
// a checkpoint on this machine does. Control tokens are neither recognised nor added: only the text counts.
// Describe tells the report which of the two it is. For use by one thread.
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
/// Returns the errors of Tokenizer::Load.
absl::StatusOr<std::unique_ptr<TokenCounter>> CountByTokenizer(const std::string& checkpoint);

}  // namespace numoe::clients
