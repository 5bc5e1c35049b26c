#include "coordinator/startup/serving_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/kernels/kernels.h"
#include "coordinator/engine/scheduler/engine_loop.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/server_flags.h"
#include "coordinator/serving/api/probe_routes.h"
#include "coordinator/serving/page/page_routes.h"
#include "coordinator/startup/health.h"
#include "coordinator/startup/part_options.h"

namespace numoe::startup {
namespace {

// Returns null for plain text.
absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> OpenWorkerTls(const TlsFiles& files, Metrics& metrics) {
  if (!files.given()) return nullptr;
  ASSIGN_OR_RETURN(const auto tls, TlsIdentityWatch::Open(files, TlsRole::kClient));
  prometheus::Gauge& expiry = metrics.With(GaugeId::kCertificateExpiry, {"worker-ssl-certfile"});
  metrics.OnScrape([tls, &expiry] { expiry.Set(static_cast<double>(tls->Current()->expires_s)); });
  return tls;
}

absl::StatusOr<std::unique_ptr<serving::Tracer>> CreateTracer(const ServingOptions& options,
                                                              Metrics& metrics) {
  if (options.otlp_endpoint.empty()) return nullptr;
  return serving::Tracer::Create({.endpoint = options.otlp_endpoint,
                                  .ratio = options.trace_ratio,
                                  .resource = {{"service.name", std::string("numoe-coordinator")},
                                               {"service.version", std::string(Version())},
                                               {"gen_ai.response.model", options.served_model_names.at(0)}}},
                                 metrics);
}

nlohmann::ordered_json ServerInfo(const ServingOptions& options, const LoadedModel& loaded) {
  return {{"model_path", options.model},
          {"device", loaded.device->Describe()},
          {"workers", options.workers.addresses},
          {"max_num_seqs", options.capacity.sequences_max},
          {"max_num_batched_tokens", options.capacity.step_tokens},
          {"max_total_tokens", loaded.plan.kv_tokens()},
          {"kv_cache_dtype", execution::CacheTypeName(options.capacity.kv_type)},
          {"deterministic", options.deterministic},
          {"max_deferred_experts_per_token", options.deferred_experts},
          {"two_batch_overlap", ToString(options.overlap)},
          {"prefix_caching", options.prefix_caching},
          {"share_prefix_cache", options.share_prefix_cache}};
}

// Returns a hash (FNV-1a) of everything in `info` that may change an answer, and of the program's version.
std::string Fingerprint(nlohmann::ordered_json info) {
  info.erase("workers");  // their addresses change no answer
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : std::string(Version()) + info.dump())
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("fp_{:016x}", hash);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServingStack>> ServingStack::Create(const ServingOptions& options) {
  RETURN_IF_ERROR(net::CheckPortFile(options.api.port_file));
  auto stack = std::unique_ptr<ServingStack>(new ServingStack(options));
  RETURN_IF_ERROR(stack->OpenPort());
  RETURN_IF_ERROR(stack->Load());
  stack->StartApi();
  RETURN_IF_ERROR(net::WritePort(options.api.port_file, stack->port()));
  LogInfo("serving {} as '{}' on {}", options.model, fmt::join(options.served_model_names, "', '"),
          stack->server_->Where());
  return stack;
}

ServingStack::~ServingStack() {
  if (service_ == nullptr) return;  // no request was served
  // The threads that post to connections end before the server does; connections hold objects that refer to
  // the service.
  server_->Stop();
  service_->Stop();
  engine_.reset();
  service_->DropWork();
}

absl::Status ServingStack::OpenPort() {
  metrics_.ServeAliases(options_.served_model_names.at(0));
  metrics_.With(GaugeId::kBuildInfo, {std::string(Version()), std::string(IsaName(options_.device.isa))})
      .Set(1);
  metrics_.With(GaugeId::kLoraAdapters, {"0", "", ""}).Set(1);
  ASSIGN_OR_RETURN(worker_tls_, OpenWorkerTls(options_.workers.tls, metrics_));
  ASSIGN_OR_RETURN(tracer_, CreateTracer(options_, metrics_));
  serving::AddStartingRoutes(starting_, metrics_, [this] { return doing_.Get(); });
  serving::AddStartingPage(starting_);
  ASSIGN_OR_RETURN(access_, net::Access::Create(options_.api.access));
  ASSIGN_OR_RETURN(server_, net::Server::Create(starting_, *access_, metrics_, options_.api.server));
  return server_->Start();
}

absl::Status ServingStack::Load() {
  NUMOE_CHECK(server_ != nullptr && !loaded_) << "the port is open while the model is loaded";
  ASSIGN_OR_RETURN(loaded_,
                   LoadModel(options_, {.worker_tls = worker_tls_, .metrics = metrics_, .doing = doing_}));
  const Capacity& capacity = loaded_->plan.capacity;
  // vLLM's dashboards expect booleans as Python writes them.
  metrics_
      .With(GaugeId::kKvCacheInfo,
            {std::to_string(execution::kKvBlockTokens), std::to_string(capacity.kv_blocks),
             std::string(execution::CacheTypeName(options_.capacity.kv_type)),
             options_.prefix_caching ? "True" : "False"})
      .Set(1);
  LogInfo("device: {}; KV cache: {} blocks of {} tokens in {}; context {} tokens",
          loaded_->device->Describe(), capacity.kv_blocks, execution::kKvBlockTokens,
          execution::CacheTypeName(options_.capacity.kv_type), capacity.model_len);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ServingStack::ExpertStats() const {
  ASSIGN_OR_RETURN(const execution::ExpertRows rows, loaded_->experts->sessions().CountedRows());
  const ModelConfig& config = loaded_->config;
  if (rows.layers != config.num_layers) {
    return absl::InternalError(
        fmt::format("workers count {} layers, expected the model's {}", rows.layers, config.num_layers));
  }
  return execution::ExpertRowsJson(rows, config.layer_is_moe);
}

void ServingStack::StartApi() {
  const LoadedModel& loaded = *loaded_;
  const Capacity& capacity = loaded.plan.capacity;
  NUMOE_CHECK(engine_ == nullptr && service_ == nullptr) << "the API starts once";
  const std::vector<TokenId>& ends = loaded.config.eos_token_ids;
  const int vocab = std::min(loaded.config.vocab_size, loaded.tokenizer->VocabSize());
  engine_ = engine::StartEngine(*loaded.model, *loaded.experts,
                                EngineOptionsFor(options_, capacity, vocab, ends), metrics_);
  grammars_.emplace(text::GrammarVocabulary::Build(*loaded.tokenizer, ends));
  deps_.emplace(serving::ApiDeps{.engine = *engine_,
                                 .tokenizer = *loaded.tokenizer,
                                 .chat_template = loaded.chat_template.get(),
                                 .metrics = metrics_,
                                 .model_names = options_.served_model_names,
                                 .fingerprint = Fingerprint(ServerInfo(options_, loaded)),
                                 .model_path = options_.model,
                                 .max_model_len = capacity.model_len,
                                 .defaults = loaded.defaults,
                                 .eos_token_ids = ends,
                                 .output_format = loaded.output_format,
                                 .grammars = *grammars_,
                                 .locked = options_.api.locked,
                                 .request_timeout_s = options_.api.request_timeout_s,
                                 .share_prefix_cache = options_.share_prefix_cache,
                                 .tracer = tracer_.get(),
                                 .health =
                                     [this] {
                                       return Health(loaded_->experts->sessions().Workers(), engine_->Stats(),
                                                     draining_.load());
                                     },
                                 .live =
                                     [this] {
                                       return Liveness(loaded_->experts->Activity(), engine_->Stats(),
                                                       static_cast<double>(options_.live_deadline_ms) / 1e3);
                                     },
                                 .expert_stats = [this] { return ExpertStats(); },
                                 .server_info = ServerInfo(options_, loaded)});
  service_ = std::make_unique<serving::ApiService>(*deps_);
  service_->Register(urls_);
  serving::AddPageRoutes(urls_);
  server_->Use(urls_);
}

void ServingStack::Serve() {
  NUMOE_CHECK(engine_ != nullptr && service_ != nullptr && !draining_.load()) << "Create has made them";
  const int signal = AwaitSignal();
  LogInfo("signal {}: draining for at most {} ms; another signal ends it at once", signal,
          options_.drain_timeout_ms);
  draining_.store(true);
  const ScopedDeadlySignals at_once;
  if (!engine_->Drain(options_.drain_timeout_ms))
    return LogWarning("requests still running at the drain timeout are ended");
  if (!server_->Finish(limits::kHttpFinishSeconds * 1000))
    LogWarning("clients that have not read their answers are disconnected");
}

}  // namespace numoe::startup
