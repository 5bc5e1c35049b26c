// ApiDeps: the objects that the API's handlers use; the serving stack (coordinator/startup) creates it once.
//
// References outlive the handlers; all members are thread-safe or constant.
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
  std::string status;  // /health: starting | ready | degraded | stuck | draining; /live: alive | stuck
  std::string detail;  // for people, for example which worker is missing
};

struct ApiDeps {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate* chat_template;  // null if the checkpoint has none; chat requests then get 400
  Metrics& metrics;
  std::vector<std::string> model_names;  // of the one model; answers use the first if the request has none
  std::string fingerprint;               // equal for answers that were computed in the same way
  std::string model_path;
  int64_t max_model_len = 0;
  GenerationDefaults defaults;
  std::vector<TokenId> eos_token_ids;
  text::OutputFormat output_format;
  text::GrammarCache& grammars;
  SamplingLocks locked;             // sampling parameters that requests cannot choose
  double request_timeout_s = 0;     // 0: no limit
  bool share_prefix_cache = false;  // between API keys
  Tracer* tracer = nullptr;         // null if nothing is traced
  std::function<HealthReport()> health;
  std::function<HealthReport()> live;
  std::function<absl::StatusOr<std::string>()> expert_stats;  // JSON; waits for the workers
  nlohmann::ordered_json server_info;                         // flags, and what was found at the start
};

}  // namespace numoe::serving
