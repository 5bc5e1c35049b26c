// numoe-coordinator: loads a model, finds its expert workers and serves the OpenAI API until SIGTERM.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <climits>

#include "common/base/core_dumps.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "common/transport/grpc_log.h"
#include "common/transport/tls_identity.h"
#include "coordinator/api/api_service.h"
#include "coordinator/api/probe_routes.h"
#include "coordinator/coordinator_flags.h"
#include "coordinator/coordinator_limits.h"
#include "coordinator/device/kv_block.h"
#include "coordinator/device_choice.h"
#include "coordinator/grammar/grammar_limits.h"
#include "coordinator/health.h"
#include "coordinator/host_share.h"
#include "coordinator/http/http_limits.h"
#include "coordinator/http/server.h"
#include "coordinator/http/server_flags.h"
#include "coordinator/model/fetch_threshold.h"
#include "coordinator/model/hot_experts.h"
#include "coordinator/model/memory_plan.h"
#include "coordinator/model/model.h"
#include "coordinator/page/page_routes.h"
#include "coordinator/parsing/output_format.h"
#include "coordinator/scheduler/engine_loop.h"
#include "coordinator/scheduler/scheduler_limits.h"
#include "coordinator/tracing/tracer.h"
#include "coordinator/transport/expert_fan_out.h"

namespace numoe {
namespace {

constexpr int kDeterministicChunkTokens = 128;

DataPath ParseDataPath(const std::string& name) {
  return name == "shm" ? DataPath::kSharedMemory : name == "grpc" ? DataPath::kGrpc : DataPath::kAuto;
}

absl::StatusOr<std::string> ExpertStats(const WorkerSessions& workers, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const ExpertRows rows, workers.CountedRows());
  if (rows.layers != config.num_layers) {
    return absl::InternalError(
        fmt::format("workers count {} layers, expected the model's {}", rows.layers, config.num_layers));
  }
  return ExpertRowsJson(rows, config.layer_is_moe);
}

StepClock::Observer PartObserver(Metrics& metrics) {
  std::array<prometheus::Histogram*, kStepParts> parts;
  for (size_t p = 0; p < kStepParts; ++p) {
    parts[p] = &metrics.With(HistogramId::kStepPartDuration, {std::string(kStepPartNames[p])});
  }
  return [parts](StepPart part, double seconds) { parts[static_cast<size_t>(part)]->Observe(seconds); };
}

std::function<void(StepWay)> WayObserver(Metrics& metrics) {
  std::array<prometheus::Counter*, kStepWays> steps;
  for (size_t w = 0; w < kStepWays; ++w)
    steps[w] = &metrics.With(CounterId::kStepsByWay, {std::string(kStepWayNames[w])});
  return [steps](StepWay way) { steps[static_cast<size_t>(way)]->Increment(); };
}

// What nobody chose is tried only where the device's time is not the workers': a CPU that computes both gains
// nothing by turns.
int OverlapTokens(const CoordinatorFlags& f, bool gpu) {
  const bool apart = gpu || std::any_of(f.workers.begin(), f.workers.end(), [](const std::string& address) {
                       return address.rfind("unix:", 0) != 0;
                     });
  return f.overlap_tokens == kMeasuredOverlap && !apart ? kNoOverlap : f.overlap_tokens;
}

std::function<void(const HotExpertsReport&)> HotExpertsObserver(Metrics& metrics) {
  prometheus::Counter* const on_gpu = &metrics.With(CounterId::kGpuExpertSelections, {"gpu"});
  prometheus::Counter* const on_workers = &metrics.With(CounterId::kGpuExpertSelections, {"workers"});
  prometheus::Counter* const swaps = &metrics.With(CounterId::kGpuExpertSwaps, {});
  return [=](const HotExpertsReport& report) {
    on_gpu->Increment(static_cast<double>(report.on_device));
    on_workers->Increment(static_cast<double>(report.on_workers));
    swaps->Increment(static_cast<double>(report.swaps));
  };
}

struct Capacity {
  int64_t model_len = 0;
  int blocks = 0;
};

int64_t LongestSequence(const CoordinatorFlags& f, const ModelConfig& config) {
  return f.max_model_len > 0 ? std::min(f.max_model_len, config.max_position_embeddings)
                             : config.max_position_embeddings;
}

Capacity PlanCapacity(const CoordinatorFlags& f, const ModelConfig& config) {
  const int64_t total = f.max_total_tokens > 0 ? f.max_total_tokens
                                               : int64_t{f.max_num_seqs} *
                                                     std::min<int64_t>(4096, config.max_position_embeddings);
  Capacity plan;
  plan.blocks = static_cast<int>(KvBlocksFor(total));
  plan.model_len = std::min<int64_t>(LongestSequence(f, config), int64_t{plan.blocks} * kKvBlockTokens);
  return plan;
}

EngineOptions EngineOptionsFor(const CoordinatorFlags& f, const Capacity& capacity, int vocab,
                               const std::vector<TokenId>& eos_token_ids) {
  const int chunk_tokens = std::min(kDeterministicChunkTokens, f.max_num_batched_tokens - f.max_num_seqs + 1);
  return {.limits = {.sequences_max = f.max_num_seqs,
                     .step_tokens = f.max_num_batched_tokens,
                     .block_tokens = kKvBlockTokens,
                     .fixed_chunk_tokens = f.deterministic ? chunk_tokens : 0},
          .kv_blocks = capacity.blocks,
          .queue_max = f.queue_max,
          .max_model_len = capacity.model_len,
          .vocab = vocab,
          .eos_token_ids = eos_token_ids,
          .worker_deadline_ms = f.worker_deadline_ms,
          .deterministic = f.deterministic,
          .prefix_caching = !f.disable_prefix_caching,
          .decode_stretch_max = f.decode_stretch_max};
}

nlohmann::ordered_json ServerInfo(const CoordinatorFlags& f, const ModelOptions& model,
                                  const Device& device) {
  return {{"model_path", f.model},
          {"device", device.Describe()},
          {"workers", f.workers},
          {"max_num_seqs", f.max_num_seqs},
          {"max_num_batched_tokens", f.max_num_batched_tokens},
          {"max_total_tokens", int64_t{model.kv_blocks} * model.kv_block_tokens},
          {"kv_cache_dtype", CacheTypeName(model.kv_cache_type)},
          {"deterministic", f.deterministic},
          {"max_deferred_experts_per_token", f.deferred_experts},
          {"two_batch_overlap", f.two_batch_overlap},
          {"prefix_caching", !f.disable_prefix_caching},
          {"share_prefix_cache", f.share_prefix_cache}};
}

// Stands in for the workers where nothing is computed.
class NoExperts final : public ExpertBackend {
 public:
  absl::Status Start(const LayerCallView&) override { return Absent(); }
  absl::Status Finish(absl::Span<float>) override { return Absent(); }
  absl::Status AwaitReady(int64_t) override { return Absent(); }
  bool Ready() const override { return false; }

 private:
  static absl::Status Absent() { return absl::UnavailableError("no worker is connected yet"); }
};

// Of every layer, on the GPU.
struct GpuExperts {
  int hot = 0;     // that stay there
  int window = 0;  // that are fetched at a time for long prompts
};

// What a device that stores nothing says the model takes.
absl::StatusOr<DeviceMemory> Measure(DeviceChoice& choice, const Checkpoint& checkpoint,
                                     const ModelConfig& config, const Capacity& capacity,
                                     const ModelOptions& options, const GpuExperts& gpu) {
  NoExperts experts;
  ASSIGN_OR_RETURN(const auto device, choice.Create(capacity.model_len, /*measure_only=*/true));
  if (gpu.hot > 0 || gpu.window > 0) {
    ASSIGN_OR_RETURN(const ExpertSlotSpec spec, SlotSpecOf(checkpoint, config, gpu.hot, gpu.window));
    RETURN_IF_ERROR(Annotate(device->ReserveExperts(spec).status(),
                             gpu.hot > 0 ? "--num-gpu-experts" : "--gpu-prefill-token-threshold"));
  }
  RETURN_IF_ERROR(Model::Load(checkpoint, config, options, *device, experts).status());
  return device->memory();
}

// A window is a whole layer where two of them fit beside the rest, else a half, a quarter, an eighth. Hot
// experts: what was asked for, or as many as fit then.
absl::StatusOr<GpuExperts> CountGpuExperts(const CoordinatorFlags& f, DeviceChoice& choice,
                                           const Checkpoint& checkpoint, const ModelConfig& config,
                                           const Capacity& capacity, const ModelOptions& options) {
  const bool automatic = f.num_gpu_experts == "auto";
  GpuExperts gpu{.hot = automatic ? 0 : std::min(std::stoi(f.num_gpu_experts), config.num_experts)};
  const auto measure = [&] { return Measure(choice, checkpoint, config, capacity, options, gpu); };
  constexpr int kPartsMax = 8;
  for (int parts = 1; f.gpu_prefill_tokens != 0 && parts <= kPartsMax; parts *= 2) {
    gpu.window = std::min((config.num_experts + parts - 1) / parts, limits::kGpuExpertsMax);
    ASSIGN_OR_RETURN(const DeviceMemory needs, measure());
    if (needs.total() <= choice.available()) break;
  }
  if (!automatic || !choice.gpu() || config.num_experts == 0) return gpu;
  gpu.hot = 1;
  ASSIGN_OR_RETURN(const DeviceMemory one, measure());
  const uint64_t rest = one.total() - one.experts;
  const auto fitting =
      choice.available() <= rest ? 0 : static_cast<int64_t>((choice.available() - rest) / one.experts);
  gpu.hot = static_cast<int>(std::min<int64_t>({fitting, config.num_experts, limits::kGpuExpertsMax}));
  return gpu;
}

// Without --max-total-tokens the cache takes what the rest leaves of a GPU, as far as sequences can use it.
absl::Status FitCache(const CoordinatorFlags& f, DeviceChoice& choice, const Checkpoint& checkpoint,
                      const ModelConfig& config, const GpuExperts& gpu, Capacity& capacity,
                      ModelOptions& options) {
  ModelOptions one_block = options;
  one_block.kv_blocks = 1;
  ASSIGN_OR_RETURN(const DeviceMemory one, Measure(choice, checkpoint, config, capacity, one_block, gpu));
  const int64_t useful = int64_t{f.max_num_seqs} * KvBlocksFor(capacity.model_len);
  const int64_t blocks =
      std::min({FittingCacheBlocks(one, choice.available()), useful, limits::kKvTokensMax / kKvBlockTokens});
  if (blocks > 0) options.kv_blocks = capacity.blocks = static_cast<int>(blocks);  // else the check says it
  return absl::OkStatus();
}

// What the model will take, said before it is loaded. On a GPU the capacity may still follow from it.
absl::StatusOr<MemoryPlan> PlanMemory(const CoordinatorFlags& f, DeviceChoice& choice,
                                      const Checkpoint& checkpoint, const ModelConfig& config,
                                      Capacity& capacity, ModelOptions& options) {
  const bool fits_cache = choice.gpu() && f.max_total_tokens == 0;
  if (fits_cache) capacity.model_len = LongestSequence(f, config);
  ASSIGN_OR_RETURN(const GpuExperts gpu, CountGpuExperts(f, choice, checkpoint, config, capacity, options));
  if (fits_cache) {
    RETURN_IF_ERROR(FitCache(f, choice, checkpoint, config, gpu, capacity, options));
    capacity.model_len = std::min<int64_t>(capacity.model_len, int64_t{capacity.blocks} * kKvBlockTokens);
  }
  MemoryPlan plan{.grammars = choice.gpu() ? 0 : limits::kGrammarCacheBytesMax,  // those are the host's
                  .available = choice.available(),
                  .gpu = choice.gpu(),
                  .gpu_experts = gpu.hot,
                  .window = gpu.window,
                  .kv_tokens = int64_t{options.kv_blocks} * options.kv_block_tokens,
                  .kv_type = options.kv_cache_type,
                  .step_tokens = f.max_num_batched_tokens};
  ASSIGN_OR_RETURN(plan.needs, Measure(choice, checkpoint, config, capacity, options, gpu));
  return plan;
}

// Until a signal comes and what runs is finished, the clients' last bytes included.
void AwaitEnd(const CoordinatorFlags& f, Engine& engine, Server& server, std::atomic<bool>& draining) {
  const int signal = AwaitSignal();
  LogInfo("signal {}: draining for at most {} ms; another signal ends it at once", signal,
          f.drain_timeout_ms);
  draining.store(true);
  const ScopedDeadlySignals at_once;
  if (!engine.Drain(f.drain_timeout_ms))
    return LogWarning("requests still running at the drain timeout are ended");
  if (!server.Finish(limits::kHttpFinishSeconds * 1000))
    LogWarning("clients that do not take their answers are left");
}

// What is loaded before anybody is served.
struct Loaded {
  MemoryReservation reservation;
  std::unique_ptr<Checkpoint> checkpoint;  // experts are read from it as long as it serves
  ModelConfig config;
  GenerationDefaults defaults;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null: the model has none
  OutputFormat output_format;
  Capacity capacity;
  ModelOptions options;
  std::unique_ptr<ExpertFanOut> experts;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
};

absl::StatusOr<ModelOptions> ModelOptionsFor(const CoordinatorFlags& f, const ModelConfig& config,
                                             const Capacity& capacity) {
  if (f.deferred_experts > 0 && f.deferred_experts >= config.experts_per_token) {
    return absl::InvalidArgumentError(fmt::format(
        "--max-deferred-experts-per-token={}: the model has {} experts per token, expected 0 to {}",
        f.deferred_experts, config.experts_per_token, std::max(config.experts_per_token - 1, 0)));
  }
  ASSIGN_OR_RETURN(const CacheType cache_type, ParseCacheType(f.kv_cache_dtype));
  return ModelOptions{.kv_block_tokens = kKvBlockTokens,
                      .kv_blocks = capacity.blocks,
                      .kv_cache_type = cache_type,
                      .logit_rows_max = f.max_num_seqs + limits::kPromptLogitRowsMax,
                      .deferred_experts = f.deferred_experts,
                      .defer_always = f.deterministic};
}

// --plan: what the model takes of memory, and nothing else. RESOURCE_EXHAUSTED: it does not fit.
absl::Status PrintPlan(const CoordinatorFlags& f) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(f.model));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(f.model));
  Capacity capacity = PlanCapacity(f, config);
  ASSIGN_OR_RETURN(ModelOptions options, ModelOptionsFor(f, config, capacity));
  ASSIGN_OR_RETURN(DeviceChoice choice, DeviceChoice::Make(f));
  ASSIGN_OR_RETURN(MemoryPlan plan, PlanMemory(f, choice, *checkpoint, config, capacity, options));
  RETURN_IF_ERROR(FindHostShare(f.memory_reservations, plan));
  for (const std::string& line : plan.Table()) std::printf("%s\n", line.c_str());
  return plan.Check();
}

// Long prompts' experts come to the device, where the workers share theirs; else one line says that they do
// not.
absl::Status FetchLongPrompts(const CoordinatorFlags& f, const ModelConfig& config, ExpertBackend& experts,
                              Device& device) {
  const bool measured = f.gpu_prefill_tokens < 0;
  const absl::Status fetching = device.FetchExperts(measured ? INT_MAX : f.gpu_prefill_tokens);
  // The device says itself what is amiss, but for workers that share nothing: others may take their place.
  if (absl::IsUnavailable(fetching))
    LogWarning("--gpu-prefill-token-threshold: prompts stay with the workers: {}",
               std::string(fetching.message()));
  if (!fetching.ok() || !measured) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double fetch_s, device.MeasureFetchSeconds());
  ASSIGN_OR_RETURN(const WorkerPace pace, MeasureWorkerPace(experts, config, f.max_num_batched_tokens));
  const int tokens = ChooseFetchThreshold(pace, fetch_s);
  LogInfo(
      "a layer's experts come to the GPU in {:.1f} ms, workers take {:.2f} ms and {:.1f} us for each token: "
      "{}",
      fetch_s * 1e3, pace.call_s * 1e3, pace.token_s * 1e6,
      tokens > f.max_num_batched_tokens
          ? fmt::format("prompts stay with the workers, as no step has {} tokens (--max-num-batched-tokens)",
                        tokens)
          : fmt::format("prompts of {} tokens and more are computed by the GPU", tokens));
  return device.FetchExperts(tokens);
}

// What is wrong with flags, files or memory is found before the workers are waited for. `doing` is what
// /health says meanwhile.
absl::StatusOr<Loaded> Load(const CoordinatorFlags& f, const std::shared_ptr<TlsIdentityWatch>& worker_tls,
                            Metrics& metrics, std::atomic<const char*>& doing) {
  const ScopedDeadlySignals deadly;  // may take minutes, and leaves nothing behind
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(f.model));
  const Checkpoint* const checkpoint = loaded.checkpoint.get();
  ASSIGN_OR_RETURN(loaded.config, ReadModelConfig(f.model));
  ASSIGN_OR_RETURN(loaded.defaults, ReadGenerationDefaults(f.model));
  ASSIGN_OR_RETURN(loaded.tokenizer, Tokenizer::Load(f.model));
  absl::StatusOr<std::unique_ptr<ChatTemplate>> chat_template = ChatTemplate::Load(f.model);
  if (!chat_template.ok() && !absl::IsNotFound(chat_template.status())) return chat_template.status();
  if (chat_template.ok()) loaded.chat_template = *std::move(chat_template);
  ASSIGN_OR_RETURN(
      loaded.output_format,
      ChooseOutputFormat(*loaded.tokenizer, f.reasoning_parser, f.tool_call_parser,
                         loaded.chat_template ? loaded.chat_template->source() : std::string_view()));
  loaded.capacity = PlanCapacity(f, loaded.config);
  ASSIGN_OR_RETURN(loaded.options, ModelOptionsFor(f, loaded.config, loaded.capacity));
  loaded.options.observe = PartObserver(metrics);
  loaded.options.observe_way = WayObserver(metrics);
  ASSIGN_OR_RETURN(DeviceChoice choice, DeviceChoice::Make(f));
  loaded.options.overlap_tokens = OverlapTokens(f, choice.gpu());
  ASSIGN_OR_RETURN(MemoryPlan plan,
                   PlanMemory(f, choice, *checkpoint, loaded.config, loaded.capacity, loaded.options));
  ASSIGN_OR_RETURN(loaded.reservation, ReserveHostShare(f.memory_reservations, f.log.program, plan));
  ASSIGN_OR_RETURN(const uint64_t fingerprint, checkpoint->Fingerprint());
  doing = "waiting for the expert workers";
  LogInfo("waiting for the workers at {}", fmt::join(f.workers, ", "));
  ASSIGN_OR_RETURN(loaded.experts, ExpertFanOut::Connect({.addresses = f.workers,
                                                          .link = {.data_path = ParseDataPath(f.data_path),
                                                                   .model_fingerprint = fingerprint,
                                                                   .hidden_size = loaded.config.hidden_size,
                                                                   .num_experts = loaded.config.num_experts,
                                                                   .map_experts = plan.window > 0,
                                                                   .ring_group = f.ring_group,
                                                                   .tls = worker_tls},
                                                          .start_deadline_ms = f.worker_start_timeout_ms},
                                                         metrics));
  doing = "loading the model's weights";
  ASSIGN_OR_RETURN(loaded.device, choice.Create(loaded.capacity.model_len, /*measure_only=*/false));
  ExpertSlots* slots = nullptr;
  if (plan.gpu_experts > 0 || plan.window > 0) {
    ASSIGN_OR_RETURN(const ExpertSlotSpec spec,
                     SlotSpecOf(*checkpoint, loaded.config, plan.gpu_experts, plan.window));
    ASSIGN_OR_RETURN(slots, loaded.device->ReserveExperts(spec));
  }
  ASSIGN_OR_RETURN(loaded.model,
                   Model::Load(*checkpoint, loaded.config, loaded.options, *loaded.device, *loaded.experts));
  if (plan.window > 0) {
    doing = "pinning the workers' memory";
    RETURN_IF_ERROR(FetchLongPrompts(f, loaded.config, *loaded.experts, *loaded.device));
  }
  if (slots == nullptr) return loaded;
  ASSIGN_OR_RETURN(loaded.model, HotExperts::Create(std::move(loaded.model), *checkpoint, *slots,
                                                    {.heat_file = f.expert_heat_file,
                                                     .exchange = !f.deterministic,
                                                     .observe = HotExpertsObserver(metrics)}));
  return loaded;
}

// Null: plain text.
absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> OpenWorkerTls(const CoordinatorFlags& f, Metrics& metrics) {
  if (!f.worker_tls.given()) return nullptr;
  ASSIGN_OR_RETURN(const auto tls, TlsIdentityWatch::Open(f.worker_tls, TlsRole::kClient));
  prometheus::Gauge& expiry = metrics.With(GaugeId::kCertificateExpiry, {"worker-ssl-certfile"});
  metrics.OnScrape([tls, &expiry] { expiry.Set(static_cast<double>(tls->Current()->expires_s)); });
  return tls;
}

absl::StatusOr<std::unique_ptr<Tracer>> CreateTracer(const CoordinatorFlags& f, Metrics& metrics) {
  if (f.otlp_endpoint.empty()) return nullptr;
  return Tracer::Create({.endpoint = f.otlp_endpoint,
                         .ratio = f.trace_ratio,
                         .resource = {{"service.name", std::string("numoe-coordinator")},
                                      {"service.version", std::string(Version())},
                                      {"gen_ai.response.model", f.served_model_name}}},
                        metrics);
}

// `no_dumps`: of ForbidCoreDumps.
absl::Status Serve(CoordinatorFlags& f, const absl::Status& no_dumps) {
  RETURN_IF_ERROR(SetupLogging(f.log));
  if (!no_dumps.ok()) LogWarning("{}", std::string(no_dumps.message()));
  RouteGrpcLog();
  RETURN_IF_ERROR(CompleteFlags(f));
  if (f.plan) return PrintPlan(f);
  RETURN_IF_ERROR(CheckPortFile(f.port_file));
  Metrics metrics(MetricOwner::kCoordinator);
  metrics.ServeAliases(f.served_model_name);
  ASSIGN_OR_RETURN(const auto worker_tls, OpenWorkerTls(f, metrics));
  ASSIGN_OR_RETURN(const auto tracer, CreateTracer(f, metrics));
  std::atomic<const char*> doing{"reading the model's files"};
  Router starting, router;
  AddStartingRoutes(starting, metrics, [&doing] { return std::string(doing.load()); });
  ASSIGN_OR_RETURN(const auto access, Access::Create(f.access));
  ASSIGN_OR_RETURN(auto server, Server::Create(starting, *access, metrics, f.server));
  RETURN_IF_ERROR(server->Start());
  ASSIGN_OR_RETURN(const Loaded loaded, Load(f, worker_tls, metrics, doing));
  const auto& [reservation, checkpoint, config, defaults, tokenizer, chat_template, output_format, capacity,
               options, experts, device, model] = loaded;
  metrics.With(GaugeId::kBuildInfo, {std::string(Version()), std::string(IsaName(*SelectIsa(f.isa)))}).Set(1);
  LogInfo("device: {}; KV cache: {} blocks of {} tokens in {}; context {} tokens", device->Describe(),
          capacity.blocks, kKvBlockTokens, CacheTypeName(options.kv_cache_type), capacity.model_len);
  const int vocab = std::min(config.vocab_size, tokenizer->VocabSize());
  auto engine =
      StartEngine(*model, *experts, EngineOptionsFor(f, capacity, vocab, config.eos_token_ids), metrics);
  GrammarCache grammars(GrammarVocabulary::Build(*tokenizer, config.eos_token_ids));
  std::atomic<bool> draining{false};
  const ApiDeps deps{
      .engine = *engine,
      .tokenizer = *tokenizer,
      .chat_template = chat_template.get(),
      .metrics = metrics,
      .model_name = f.served_model_name,
      .model_path = f.model,
      .max_model_len = capacity.model_len,
      .defaults = defaults,
      .eos_token_ids = config.eos_token_ids,
      .output_format = output_format,
      .grammars = grammars,
      .locked = f.locked,
      .request_timeout_s = f.request_timeout_s,
      .share_prefix_cache = f.share_prefix_cache,
      .tracer = tracer.get(),
      .health =
          [&] { return Health(loaded.experts->sessions().Workers(), engine->Stats(), draining.load()); },
      .live =
          [&] {
            return Liveness(loaded.experts->Activity(), engine->Stats(),
                            static_cast<double>(f.live_deadline_ms) / 1e3);
          },
      .expert_stats = [&] { return ExpertStats(loaded.experts->sessions(), loaded.config); },
      .server_info = ServerInfo(f, options, *device)};
  ApiService service(deps);
  service.Register(router);
  AddPageRoutes(router);
  server->Use(router);
  const absl::Status told = WritePort(f.port_file, server->port());
  if (told.ok()) {
    LogInfo("serving {} as '{}' on {}:{}", f.model, f.served_model_name, f.server.host, server->port());
    AwaitEnd(f, *engine, *server, draining);
  }
  // Whoever posts to connections ends before the server does; what these hold refers to the service.
  server->Stop();
  service.Stop();
  engine.reset();
  service.DropWork();
  server.reset();
  return told;
}

}  // namespace
}  // namespace numoe

int main(int argc, char** argv) {
  numoe::CoordinatorFlags flags;
  if (const int code = numoe::ParseCoordinatorFlags(argc, argv, flags); code >= 0) return code;
  const absl::Status no_dumps = flags.core_dumps ? absl::OkStatus() : numoe::ForbidCoreDumps();
  numoe::BlockSignals();
  numoe::RaiseDescriptorLimit();
  if (const absl::Status status = numoe::Serve(flags, no_dumps); !status.ok()) {
    std::fprintf(stderr, "numoe-coordinator: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  return 0;
}
