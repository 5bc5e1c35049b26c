// The OpenAI API over HTTP: Boost.Beast, asynchronous, a few threads for any number of connections.
//
// POST /v1/chat/completions and /v1/completions (whole or streamed), GET /v1/models, /health, /metrics, POST
// /reset_prefix_cache. A connection that goes away cancels its sequence; overload is refused before
// tokenising; bodies, headers and reading times are bounded (limits::kHttp*). Everything the handlers need
// comes in ServerDeps and must outlive the server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "common/weights/model_config.h"
#include "coordinator/chat/chat_template.h"
#include "coordinator/grammar/grammar_cache.h"
#include "coordinator/parsing/output_format.h"
#include "coordinator/scheduler/engine.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace numoe {

struct HealthReport {
  std::string status;  // starting | ready | degraded | draining
  std::string detail;  // which worker, ...
};

struct ServerDeps {
  Engine& engine;
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template;  // null: the checkpoint has none, chat answers 400
  Metrics& metrics;
  std::string model_name;
  int64_t max_model_len = 0;
  GenerationDefaults defaults;
  std::vector<TokenId> eos_token_ids;
  OutputFormat output_format;
  GrammarCache& grammars;
  std::vector<std::string> api_keys;  // empty: open
  std::function<HealthReport()> health;
};

struct ServerOptions {
  std::string host = "0.0.0.0";
  int port = 8080;  // 0: any free one
  int threads = 2;
};

class Server {
 public:
  /// Listens and serves at once. INVALID_ARGUMENT names an address that cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerDeps& deps, const ServerOptions& options);
  /// Closes all connections.
  virtual ~Server() = default;
  virtual int port() const = 0;
};

}  // namespace numoe
