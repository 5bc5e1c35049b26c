// ApiDeps: what the API's handlers work with, put together once by the serving stack (coordinator/startup).
//
// References outlive the handlers; everything in it is thread-safe or constant.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "common/weights/model_config.h"
#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/serving/api/sampling_locks.h"
#include "coordinator/serving/tracing/tracer.h"
#include "coordinator/text/chat/chat_template.h"
#include "coordinator/text/grammar/grammar_cache.h"
#include "coordinator/text/parsing/output_format.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::serving {

struct HealthReport {
  std::string status;  // of /health: starting | ready | degraded | stuck | draining; of /live: alive | stuck
  std::string detail;  // which worker, ...
};

struct ApiDeps {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate* chat_template;  // null: the checkpoint has none, chat answers 400
  Metrics& metrics;
  std::vector<std::string> model_names;  // that it answers to; the first is its name where nobody asked
  std::string fingerprint;               // tells clients whether another answer was made the same way
  std::string model_path;
  int64_t max_model_len = 0;
  GenerationDefaults defaults;
  std::vector<TokenId> eos_token_ids;
  text::OutputFormat output_format;
  text::GrammarCache& grammars;
  SamplingLocks locked;             // what no request may choose otherwise
  double request_timeout_s = 0;     // 0: none
  bool share_prefix_cache = false;  // between API keys
  Tracer* tracer = nullptr;         // null: nothing is traced
  std::function<HealthReport()> health;
  std::function<HealthReport()> live;
  std::function<absl::StatusOr<std::string>()> expert_stats;  // JSON; waits for the workers
  nlohmann::ordered_json server_info;                         // flags and what was found at start
};

}  // namespace numoe::serving
