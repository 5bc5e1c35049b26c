// numoe-coordinator: loads a model, finds its expert workers and serves the OpenAI API until SIGTERM.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <fstream>

#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/observe/logging.h"
#include "common/topology/topology.h"
#include "coordinator/device/cpu/cpu_device.h"
#include "coordinator/http/server.h"
#include "coordinator/model/model.h"
#include "coordinator/parsing/output_format.h"
#include "coordinator/scheduler/engine_loop.h"
#include "coordinator/transport/worker_pool.h"

namespace numoe {
namespace {

constexpr int kBlockTokens = 16;
constexpr int kDeterministicChunkTokens = 128;

struct CoordinatorFlags {
  std::string model;
  std::string served_model_name;
  std::vector<std::string> workers;
  std::string data_path = "auto";
  std::string port_file;
  std::vector<std::string> api_keys;
  std::string reasoning_parser = "auto";
  std::string tool_call_parser = "auto";
  ServerOptions server;
  int max_num_seqs = 32;
  int max_num_batched_tokens = 2048;
  int64_t max_model_len = 0;
  int64_t max_total_tokens = 0;
  int queue_max = 256;
  int64_t worker_deadline_ms = 60'000;
  int64_t drain_timeout_ms = 30'000;
  bool deterministic = false;
  bool disable_prefix_caching = false;
  double decode_stretch_max = 2;
  std::string isa = "auto";
  std::string activations = "auto";
  std::string dense_format = "auto";
  int threads = 0;
  LogOptions log{.program = "numoe-coordinator"};
};

int ParseFlags(int argc, char** argv, CoordinatorFlags& f) {
  Flags flags(
      "numoe-coordinator",
      "NUMoE coordinator: attention, routing and the OpenAI API; routed experts come from expert workers.");
  flags
      .Add("model", f.model,
           "Checkpoint directory (config.json, *.safetensors, tokenizer files), or a .gguf file")
      ->required();
  flags
      .Add("workers", f.workers,
           "Addresses of all expert workers: HOST:PORT or unix:PATH, separated by commas")
      ->required()
      ->delimiter(',');
  flags.Add("served-model-name", f.served_model_name,
            "Model name in the API; default: the directory's or file's name");
  flags.Add("host", f.server.host, "IP address to serve on");
  flags.Add("port", f.server.port, "Port to serve on; 0: any free one")->check(CLI::Range(0, 65535));
  flags.Add("port-file", f.port_file, "File to write the port to once it serves");
  flags.Add("api-key", f.api_keys, "Accepted API keys, separated by commas; default: open")->delimiter(',');
  flags
      .Add("reasoning-parser", f.reasoning_parser,
           "What tells reasoning from the answer: auto (by the vocabulary), think, none")
      ->check(CLI::IsMember({"auto", "think", "none"}));
  flags
      .Add("tool-call-parser", f.tool_call_parser,
           "Form of tool calls: auto (by the vocabulary), kimi_k2, deepseek_v3, hermes, none")
      ->check(CLI::IsMember({"auto", "kimi_k2", "deepseek_v3", "hermes", "none"}));
  flags.Add("max-num-seqs", f.max_num_seqs, "Sequences that run at once")->check(CLI::Range(1, 4096));
  flags.Add("max-num-batched-tokens", f.max_num_batched_tokens, "Tokens in one step")
      ->check(CLI::Range(1, limits::kCallTokensMax));
  flags.Add("max-model-len", f.max_model_len,
            "Context length, prompt and answer; 0: the model's, as far as the cache holds it");
  flags.Add("max-total-tokens", f.max_total_tokens,
            "Tokens in the KV cache; 0: room for max-num-seqs of 4096 tokens");
  flags.Add("max-queued-requests", f.queue_max, "Requests waiting before 429")->check(CLI::Range(1, 1 << 20));
  flags.Add("data-path", f.data_path, "Layer calls over: auto, shm, grpc")
      ->check(CLI::IsMember({"auto", "shm", "grpc"}));
  flags.Add("worker-deadline-ms", f.worker_deadline_ms, "How long requests wait for a lost worker");
  flags.Add("drain-timeout-ms", f.drain_timeout_ms, "How long running requests may finish after SIGTERM");
  flags.AddSwitch("deterministic", f.deterministic,
                  "The same request and seed give the same text under any load");
  flags.AddSwitch("disable-prefix-caching", f.disable_prefix_caching,
                  "Compute every prompt from its first token, whatever was computed before");
  flags
      .Add("decode-stretch-max", f.decode_stretch_max,
           "How much longer a step may take for prompts while others decode, as a factor; 0: any")
      ->check(CLI::Range(0.0, 1e6));
  flags.Add("isa", f.isa, "Instruction set: auto, scalar, avx2, avx512, amx");
  flags.Add("dense-format", f.dense_format,
            "Format of attention's, shared experts' and the head's matrices: auto (as published), bf16, "
            "int8, int4");
  flags.Add("activations", f.activations,
            "auto: INT8 where many tokens meet INT4 or INT8 weights, else BF16 or two INT8 rows; bf16: those "
            "always; fp32: exact "
            "and slow");
  flags.Add("threads", f.threads, "Compute threads; 0: every CPU this process may use");
  flags.Add("log-level", f.log.level, "debug, info, warning, error");
  flags.Add("log-format", f.log.format, "text or json");
  return flags.Parse(argc, argv);
}

absl::StatusOr<std::vector<int>> CpusFor(int threads) {
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  std::vector<int> cpus;
  for (const NumaNode& node : topology.nodes) cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  if (threads > 0) {
    const std::vector<int> all = cpus;
    cpus.clear();
    for (int i = 0; i < threads; ++i) cpus.push_back(all[static_cast<size_t>(i) % all.size()]);
  }
  return cpus;
}

DataPath ParseDataPath(const std::string& name) {
  return name == "shm" ? DataPath::kSharedMemory : name == "grpc" ? DataPath::kGrpc : DataPath::kAuto;
}

HealthReport Health(const WorkerPool& pool, bool draining) {
  if (draining) return {"draining", "running requests finish, new ones are refused"};
  std::string down;
  for (const WorkerStatus& worker : pool.Workers()) {
    if (!worker.up)
      down += fmt::format("{}worker {}: {}", down.empty() ? "" : "; ", worker.address, worker.error);
  }
  return down.empty() ? HealthReport{"ready", ""} : HealthReport{"degraded", down};
}

absl::Status WritePort(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path + ".tmp");
  file << port << "\n";
  file.close();
  if (!file || std::rename((path + ".tmp").c_str(), path.c_str()) != 0)
    return absl::InvalidArgumentError("--port-file: cannot write " + path);
  return absl::OkStatus();
}

StepClock::Observer PartObserver(Metrics& metrics) {
  std::array<prometheus::Histogram*, kStepParts> parts;
  for (size_t p = 0; p < kStepParts; ++p) {
    parts[p] = &metrics.With(HistogramId::kStepPartDuration, {std::string(kStepPartNames[p])});
  }
  return [parts](StepPart part, double seconds) { parts[static_cast<size_t>(part)]->Observe(seconds); };
}

struct Capacity {
  int64_t model_len = 0;
  int blocks = 0;
};

Capacity PlanCapacity(const CoordinatorFlags& f, const ModelConfig& config) {
  const int64_t total = f.max_total_tokens > 0 ? f.max_total_tokens
                                               : int64_t{f.max_num_seqs} *
                                                     std::min<int64_t>(4096, config.max_position_embeddings);
  Capacity plan;
  plan.blocks = static_cast<int>((total + kBlockTokens - 1) / kBlockTokens);
  plan.model_len = f.max_model_len > 0 ? std::min(f.max_model_len, config.max_position_embeddings)
                                       : config.max_position_embeddings;
  plan.model_len = std::min<int64_t>(plan.model_len, int64_t{plan.blocks} * kBlockTokens);
  return plan;
}

EngineOptions EngineOptionsFor(const CoordinatorFlags& f, const Capacity& capacity, int vocab,
                               const std::vector<TokenId>& eos_token_ids) {
  const int chunk_tokens = std::min(kDeterministicChunkTokens, f.max_num_batched_tokens - f.max_num_seqs + 1);
  return {.limits = {.sequences_max = f.max_num_seqs,
                     .step_tokens = f.max_num_batched_tokens,
                     .block_tokens = kBlockTokens,
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

absl::StatusOr<std::unique_ptr<CpuDevice>> CreateDevice(const CoordinatorFlags& f) {
  ASSIGN_OR_RETURN(const std::vector<int> cpus, CpusFor(f.threads));
  ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(f.activations));
  return CpuDevice::Create({.step_tokens_max = f.max_num_batched_tokens,
                            .cpus = cpus,
                            .isa = f.isa,
                            .precision = precision,
                            .dense_format = f.dense_format});
}

absl::Status CheckFlags(CoordinatorFlags& f) {
  if (f.served_model_name.empty()) {
    const std::filesystem::path model = std::filesystem::weakly_canonical(f.model);
    f.served_model_name = (model.extension() == ".gguf" ? model.stem() : model.filename()).string();
  }
  if (f.max_num_batched_tokens < f.max_num_seqs) {
    return absl::InvalidArgumentError(
        fmt::format("--max-num-batched-tokens={}: expected at least --max-num-seqs={}, one token for each",
                    f.max_num_batched_tokens, f.max_num_seqs));
  }
  return absl::OkStatus();
}

absl::Status Serve(CoordinatorFlags& f) {
  RETURN_IF_ERROR(SetupLogging(f.log));
  RETURN_IF_ERROR(CheckFlags(f));
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(f.model));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(f.model));
  ASSIGN_OR_RETURN(const GenerationDefaults defaults, ReadGenerationDefaults(f.model));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(f.model));
  ASSIGN_OR_RETURN(const OutputFormat output_format,
                   ChooseOutputFormat(*tokenizer, f.reasoning_parser, f.tool_call_parser));
  absl::StatusOr<std::unique_ptr<ChatTemplate>> chat_template = ChatTemplate::Load(f.model);
  if (!chat_template.ok() && !absl::IsNotFound(chat_template.status())) return chat_template.status();
  Metrics metrics(MetricOwner::kCoordinator);
  ASSIGN_OR_RETURN(const auto pool,
                   WorkerPool::Create({.addresses = f.workers,
                                       .link = {.data_path = ParseDataPath(f.data_path),
                                                .model_fingerprint = checkpoint->Fingerprint(),
                                                .hidden_size = config.hidden_size,
                                                .num_experts = config.num_experts}},
                                      metrics));
  const Capacity capacity = PlanCapacity(f, config);
  ASSIGN_OR_RETURN(const auto device, CreateDevice(f));
  ASSIGN_OR_RETURN(const auto model, Model::Load(*checkpoint, config,
                                                 {.kv_block_tokens = kBlockTokens,
                                                  .kv_blocks = capacity.blocks,
                                                  .observe = PartObserver(metrics)},
                                                 *device, *pool));
  spdlog::info("device: {}; KV cache: {} blocks of {} tokens, {:.1f} MiB; context {} tokens",
               device->Describe(), capacity.blocks, kBlockTokens,
               static_cast<double>(model->KvBytesPerToken()) * capacity.blocks * kBlockTokens / (1 << 20),
               capacity.model_len);
  const int vocab = std::min(config.vocab_size, tokenizer->VocabSize());
  const auto engine =
      StartEngine(*model, *pool, EngineOptionsFor(f, capacity, vocab, config.eos_token_ids), metrics);
  GrammarCache grammars(GrammarVocabulary::Build(*tokenizer, config.eos_token_ids));
  std::atomic<bool> draining{false};
  const ServerDeps deps{.engine = *engine,
                        .tokenizer = *tokenizer,
                        .chat_template = chat_template.ok() ? chat_template->get() : nullptr,
                        .metrics = metrics,
                        .model_name = f.served_model_name,
                        .max_model_len = capacity.model_len,
                        .defaults = defaults,
                        .eos_token_ids = config.eos_token_ids,
                        .output_format = output_format,
                        .grammars = grammars,
                        .api_keys = f.api_keys,
                        .health = [&] { return Health(*pool, draining.load()); }};
  ASSIGN_OR_RETURN(const auto server, Server::Start(deps, f.server));
  RETURN_IF_ERROR(WritePort(f.port_file, server->port()));
  spdlog::info("serving {} as '{}' on {}:{}", f.model, f.served_model_name, f.server.host, server->port());
  const int signal = AwaitSignal();
  spdlog::info("signal {}: draining for at most {} ms; another signal ends it at once", signal,
               f.drain_timeout_ms);
  draining.store(true);
  const ScopedDeadlySignals at_once;
  if (!engine->Drain(f.drain_timeout_ms))
    spdlog::warn("requests still running at the drain timeout are ended");
  return absl::OkStatus();
}

}  // namespace
}  // namespace numoe

int main(int argc, char** argv) {
  numoe::CoordinatorFlags flags;
  if (const int code = numoe::ParseFlags(argc, argv, flags); code >= 0) return code;
  numoe::BlockSignals();
  if (const absl::Status status = numoe::Serve(flags); !status.ok()) {
    std::fprintf(stderr, "numoe-coordinator: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  return 0;
}
