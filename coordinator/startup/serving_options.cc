#include "coordinator/startup/serving_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "common/base/check.h"
#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/transport/peer_credentials.h"
#include "common/transport/transport_limits.h"
#include "common/weights/weights_limits.h"
#include "coordinator/net/http/server_flags.h"
#include "coordinator/startup/startup_limits.h"

namespace numoe::startup {
namespace {

// The flags as they are given. Whose text needs no reading fills in the options themselves.
struct ServingFlags {
  ServingOptions options;
  std::string data_path = "auto";
  std::string shared_memory_group;
  std::vector<std::string> locked_sampling;
  std::string kv_cache_dtype = "auto";
  bool disable_prefix_caching = false;
  std::string two_batch_overlap = "auto";
  std::string isa = "auto";
  std::string activations = "auto";
  std::string dense_format = "auto";
  std::string device = "auto";
  std::string gpu_memory;
  std::string num_gpu_experts = "0";
  std::string gpu_prefill_token_threshold = "off";
};

void AddWorkerFlags(Flags& flags, ServingFlags& f) {
  flags
      .Add("workers", f.options.workers.addresses,
           "Addresses of all expert workers: HOST:PORT or unix:PATH, separated by commas; needed but for "
           "--plan")
      .CommaSeparated();
  flags.Add("worker-ssl-certfile", f.options.workers.tls.certificate,
            "PEM file with the certificate chain that workers at HOST:PORT are shown (mutual TLS); default: "
            "plain text");
  flags.Add("worker-ssl-keyfile", f.options.workers.tls.key, "PEM file with its key");
  flags.Add("worker-ssl-ca-certs", f.options.workers.tls.ca_certs,
            "PEM file with the CAs that workers' certificates are of");
}

void AddApiFlags(Flags& flags, ServingFlags& f) {
  flags
      .Add("reasoning-parser", f.options.api.reasoning_parser,
           "What tells reasoning from the answer: auto (by the vocabulary), think, none")
      .OneOf({"auto", "think", "none"});
  flags
      .Add("tool-call-parser", f.options.api.tool_call_parser,
           "Form of tool calls: auto (by vocabulary and template), kimi_k2, deepseek_v3, hermes, "
           "qwen3_coder, none")
      .OneOf({"auto", "kimi_k2", "deepseek_v3", "hermes", "qwen3_coder", "none"});
  flags.Add("chat-template", f.options.api.chat_template,
            "File with the chat template (Jinja) to use instead of the model's own");
  flags
      .Add(
          "lock-sampling", f.locked_sampling,
          "NAME=NUMBER or NAME=LOW..HIGH, separated by commas: sampling parameters that no request may "
          "choose "
          "otherwise; thinking:NAME=... and instant:NAME=... count for conversations that may think, or that "
          "switch thinking off: temperature=0.6..1.0, or thinking:temperature=1.0,instant:temperature=0.6")
      .CommaSeparated();
  flags
      .Add("request-timeout-s", f.options.api.request_timeout_s,
           "How long a request may take, in seconds; 0: any time")
      .NonNegative();
}

void AddEngineFlags(Flags& flags, ServingFlags& f) {
  flags.Add("max-num-seqs", f.options.capacity.sequences_max, "Sequences that run at once")
      .Range(1, limits::kRunningSequencesMax);
  flags.Add("max-num-batched-tokens", f.options.capacity.step_tokens, "Tokens in one step")
      .Range(1, limits::kCallTokensMax);
  flags
      .Add("max-model-len", f.options.capacity.model_len_max,
           "Context length, prompt and answer; 0: the model's, as far as the cache holds it")
      .Range(int64_t{0}, limits::kPositionsMax);
  flags
      .Add("max-total-tokens", f.options.capacity.kv_tokens,
           "Tokens in the KV cache; 0: room for max-num-seqs of 4096 tokens, on a GPU all that the rest "
           "leaves")
      .Range(int64_t{0}, limits::kKvTokensMax);
  flags
      .Add("kv-cache-dtype", f.kv_cache_dtype,
           "KV cache in: auto (bf16), bf16 (bfloat16), fp8_e4m3 (fp8): about half the bytes of bf16")
      .OneOf({"auto", "bf16", "bfloat16", "fp8_e4m3", "fp8"});
  flags
      .Add("max-queued-requests", f.options.queue_max,
           "Requests waiting before 429; an API key that has none waiting may always add one")
      .Range(1, 1 << 20);
  flags.Add("data-path", f.data_path, "Layer calls over: auto, shm, grpc").OneOf({"auto", "shm", "grpc"});
  flags.Add("shared-memory-group", f.shared_memory_group,
            "Group, by name or number, whose processes' shared memory is used besides that of this one's own "
            "user and root; this process must be in it; give both ends the same; default: none");
  flags
      .Add("worker-start-timeout-ms", f.options.workers.start_timeout_ms,
           "How long the start waits for all workers, who may be loading; 0: for ever")
      .NonNegative();
  flags.Add("worker-deadline-ms", f.options.worker_deadline_ms, "How long requests wait for a lost worker")
      .NonNegative();
  flags
      .Add("drain-timeout-ms", f.options.drain_timeout_ms,
           "How long running requests may finish after SIGTERM")
      .NonNegative();
  flags
      .Add("live-deadline-ms", f.options.live_deadline_ms,
           "How long the engine may spend on one layer before /live says that the process is stuck")
      .Positive();
  flags.AddSwitch("deterministic", f.options.deterministic,
                  "The same request and seed give the same text under any load");
  flags.AddSwitch("disable-prefix-caching", f.disable_prefix_caching,
                  "Compute every prompt from its first token, whatever was computed before");
  flags.AddSwitch("share-prefix-cache", f.options.share_prefix_cache,
                  "What was computed for one API key is used for the others, too: how soon an answer begins "
                  "then tells a key what another one has asked");
  flags
      .Add("decode-stretch-max", f.options.decode_stretch_max,
           "How much longer a step may take for prompts while others decode, as a factor; 0: any")
      .Range(0.0, 1e6);
  flags
      .Add("max-deferred-experts-per-token", f.options.deferred_experts,
           "Routed experts of a token that arrive one layer later, those with the smallest weights: the "
           "workers compute them during the next layer's attention; 0: none, exact")
      .Range(0, limits::kExpertsPerTokenMax - 1);
  flags.Add("two-batch-overlap", f.two_batch_overlap,
            "Tokens of a step from which on it is cut in two halves, of which the device computes one while "
            "the workers have the other; auto: where that measures faster, with a GPU or with workers on "
            "other hosts; off: never");
}

// The exit code to leave with, or -1 to go on.
int ParseFlags(int argc, char** argv, ServingFlags& f) {
  Flags flags(
      "numoe-coordinator",
      "NUMoE coordinator: attention, routing and the OpenAI API; routed experts come from expert workers.");
  flags
      .Add("model", f.options.model,
           "Checkpoint directory (config.json, *.safetensors, tokenizer files), or a .gguf file")
      .Required();
  AddWorkerFlags(flags, f);
  flags
      .Add("served-model-name", f.options.served_model_names,
           "Model names in the API, separated by commas; the first one is that of metrics and traces; "
           "default: "
           "the directory's or file's name")
      .CommaSeparated();
  net::AddServerFlags(flags, {f.options.api.server, f.options.api.access, f.options.api.port_file});
  AddApiFlags(flags, f);
  AddEngineFlags(flags, f);
  flags.Add("isa", f.isa, "Instruction set: auto, scalar, avx2, avx512, amx");
  flags.Add("dense-format", f.dense_format,
            "Format of attention's, shared experts' and the head's matrices: auto (as published), bf16, "
            "int8, int4");
  flags.Add("activations", f.activations,
            "auto: INT8 where many tokens meet INT4 or INT8 weights, else BF16 or two INT8 rows; bf16: those "
            "always; fp32: exact "
            "and slow");
  flags.Add("threads", f.options.device.threads, "Compute threads; 0: every CPU this process may use")
      .Range(0, limits::kThreadsMax);
  flags.Add("device", f.device,
            "Where attention and dense layers run: auto (a GPU if there is one), cpu, cuda, cuda:N");
  flags.Add("gpu-memory", f.gpu_memory,
            "Memory of the GPU to use at most, as in 80GiB; default: all that is free");
  flags.Add("num-gpu-experts", f.num_gpu_experts,
            "Routed experts of each layer that the GPU computes, the most used ones; auto: as many as fit");
  flags.Add("gpu-prefill-token-threshold", f.gpu_prefill_token_threshold,
            "Prompt tokens of a step from which on the GPU fetches the experts from the workers' memory "
            "(their --share-experts) and computes them itself; auto: where that is faster, measured at "
            "start; off: never");
  flags.Add("expert-heat-file", f.options.expert_heat_file,
            "File that keeps the experts' use over restarts; default: it is measured anew");
  flags.AddSwitch(
      "plan", f.options.plan,
      "Say what the model takes of memory and end; with --gpu-memory for a GPU that need not be here");
  flags.Add(
      "memory-reservations", f.options.memory_reservations,
      "Folder in which the daemons of one user on this host tell each other what memory they will take: with "
      "mode 700, for this alone, the same for all of them; auto: /dev/shm/numoe-UID");
  flags.Add(
      "otlp-endpoint", f.options.otlp_endpoint,
      "OpenTelemetry collector (OTLP over HTTP, http://HOST:4318) that traces of requests go to; default: "
      "none");
  flags
      .Add("trace-ratio", f.options.trace_ratio,
           "Share of the requests that are traced where the client's traceparent does not say, 0 to 1")
      .Range(0.0, 1.0);
  flags.AddSwitch("core-dumps", f.options.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.options.log.level, "debug, info, warning, error");
  flags.Add("log-format", f.options.log.format, "text or json");
  return flags.Parse(argc, argv);
}

absl::Status CheckWorkerAddress(const std::string& address) {
  constexpr std::string_view kUnix = "unix:";
  if (address.rfind(kUnix, 0) == 0 && address.size() > kUnix.size()) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  int port = 0;
  const char* const end = address.data() + address.size();
  const char* const number = colon == std::string::npos ? end : address.data() + colon + 1;
  const auto read = std::from_chars(number, end, port);
  if (colon != 0 && read.ec == std::errc() && read.ptr == end && port >= 1 && port <= 65'535)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--workers: found \"{}\", expected HOST:PORT or unix:PATH", address));
}

// "80GiB", "24 GB", "81920MiB", or a plain number of bytes.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  std::string unit(read.ptr, end);
  unit.erase(std::remove_if(unit.begin(), unit.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             unit.end());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},         {"b", 1},         {"mb", 1e6},    {"gb", 1e9},     {"m", 1 << 20},
      {"mi", 1 << 20}, {"mib", 1 << 20}, {"g", 1 << 30}, {"gi", 1 << 30}, {"gib", 1 << 30}};
  for (const auto& [name, bytes] : kUnits) {
    if (read.ec == std::errc() && unit == name && number >= 0 && number * bytes < 1e15)
      return static_cast<uint64_t>(number * bytes);
  }
  return absl::InvalidArgumentError(fmt::format("found \"{}\", expected a size like 80GiB or 24GB", text));
}

// The whole text is a number from `low` to `high`.
std::optional<int> ParseNumber(std::string_view text, int low, int high) {
  NUMOE_CHECK_LE(low, high);
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < low || number > high) return std::nullopt;
  return number;
}

absl::Status ReadDevice(const ServingFlags& f, DeviceOptions& device) {
  constexpr std::string_view kNumbered = "cuda:";
  constexpr int kOrdinalMax = 999;
  if (f.device == "cpu") {
    device.kind = DeviceKind::kCpu;
  } else if (f.device != "auto") {
    device.kind = DeviceKind::kCuda;
    if (f.device.rfind(kNumbered, 0) == 0)
      device.ordinal = ParseNumber(std::string_view(f.device).substr(kNumbered.size()), 0, kOrdinalMax);
    if (f.device != "cuda" && !device.ordinal) {
      return absl::InvalidArgumentError(
          fmt::format("--device: found \"{}\", expected auto, cpu, cuda or cuda:N", f.device));
    }
  }
  if (!f.gpu_memory.empty()) {
    const absl::StatusOr<uint64_t> bytes = ParseBytes(f.gpu_memory);
    if (!bytes.ok()) return Annotate(bytes.status(), "--gpu-memory");
    if (*bytes > 0) device.gpu_memory = {.bytes = *bytes, .text = f.gpu_memory};
  }
  const absl::StatusOr<Isa> isa = SelectIsa(f.isa);
  if (!isa.ok()) return Annotate(isa.status(), "--isa");
  device.isa = *isa;
  const absl::StatusOr<Precision> precision = ParsePrecision(f.activations);
  if (!precision.ok()) return Annotate(precision.status(), "--activations");
  device.precision = *precision;
  const absl::StatusOr<std::optional<WeightFormat>> format = ParseWeightFormatOrAuto(f.dense_format);
  if (!format.ok()) return Annotate(format.status(), "--dense-format");
  device.dense_format = *format;
  return absl::OkStatus();
}

absl::Status ReadCapacity(const ServingFlags& f, CapacityRequest& capacity) {
  const absl::StatusOr<execution::CacheType> cache = execution::ParseCacheType(f.kv_cache_dtype);
  if (!cache.ok()) return Annotate(cache.status(), "--kv-cache-dtype");
  capacity.kv_type = *cache;
  capacity.gpu_experts = std::nullopt;
  if (f.num_gpu_experts != "auto") {
    capacity.gpu_experts = ParseNumber(f.num_gpu_experts, 0, limits::kGpuExpertsMax);
    if (!capacity.gpu_experts) {
      return absl::InvalidArgumentError(
          fmt::format("--num-gpu-experts: found \"{}\", expected auto or 0 to {}", f.num_gpu_experts,
                      limits::kGpuExpertsMax));
    }
  }
  constexpr const char* kPrefill = "--gpu-prefill-token-threshold";
  const absl::StatusOr<TokenThreshold> prefill = ParseTokenThreshold(f.gpu_prefill_token_threshold);
  if (!prefill.ok()) return Annotate(prefill.status(), kPrefill);
  capacity.gpu_prefill = *prefill;
  return absl::OkStatus();
}

execution::DataPath DataPathOf(const std::string& word) {
  if (word == "shm") return execution::DataPath::kSharedMemory;
  if (word == "grpc") return execution::DataPath::kGrpc;
  NUMOE_CHECK_EQ(word, "auto") << "the flag takes no other word";
  return execution::DataPath::kAuto;
}

std::string DefaultName(const std::string& model) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(model);
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

// What contradicts itself, whatever the machine and the model.
absl::Status CheckTogether(const ServingOptions& o) {
  const CapacityRequest& capacity = o.capacity;
  if (!IsNever(capacity.gpu_prefill) && o.deterministic)
    return absl::InvalidArgumentError(
        "--gpu-prefill-token-threshold with --deterministic: expected one of them, where a prompt is "
        "computed depends on what runs beside it");
  if (!IsNever(capacity.gpu_prefill) && o.workers.data_path == execution::DataPath::kGrpc)
    return absl::InvalidArgumentError(
        "--gpu-prefill-token-threshold with --data-path=grpc: the workers' memory is reached through shared "
        "memory only");
  RETURN_IF_ERROR(CheckAllOrNone(o.workers.tls));
  if (o.share_prefix_cache && !o.prefix_caching) {
    return absl::InvalidArgumentError(
        "--share-prefix-cache with --disable-prefix-caching: expected one of them, without a cache there is "
        "nothing to share");
  }
  if (capacity.step_tokens < capacity.sequences_max) {
    return absl::InvalidArgumentError(
        fmt::format("--max-num-batched-tokens={}: expected at least --max-num-seqs={}, one token for each",
                    capacity.step_tokens, capacity.sequences_max));
  }
  if (o.deterministic && o.deferred_experts > 0 && capacity.step_tokens > limits::kDeferringTokensMax) {
    return absl::InvalidArgumentError(fmt::format(
        "--max-num-batched-tokens={} with --deterministic and --max-deferred-experts-per-token={}: "
        "expected at most {}",
        capacity.step_tokens, o.deferred_experts, limits::kDeferringTokensMax));
  }
  return net::CheckServerFlags(o.api.server);
}

absl::StatusOr<ServingOptions> OptionsFrom(ServingFlags f) {
  ServingOptions& o = f.options;
  if (o.model.empty()) return absl::InvalidArgumentError("--model is empty: expected a path");
  if (o.workers.addresses.empty() && !o.plan)
    return absl::InvalidArgumentError("--workers is missing: expected the addresses of all expert workers");
  RETURN_IF_ERROR(ReadDevice(f, o.device));
  RETURN_IF_ERROR(ReadCapacity(f, o.capacity));
  const absl::StatusOr<TokenThreshold> overlap = ParseTokenThreshold(f.two_batch_overlap);
  if (!overlap.ok()) return Annotate(overlap.status(), "--two-batch-overlap");
  o.overlap = *overlap;
  for (const std::string& worker : o.workers.addresses) RETURN_IF_ERROR(CheckWorkerAddress(worker));
  ASSIGN_OR_RETURN(o.workers.shared_memory_group, ParseSharedMemoryGroup(f.shared_memory_group));
  o.workers.data_path = DataPathOf(f.data_path);
  o.prefix_caching = !f.disable_prefix_caching;
  if (o.served_model_names.empty()) o.served_model_names = {DefaultName(o.model)};
  RETURN_IF_ERROR(CheckTogether(o));
  ASSIGN_OR_RETURN(o.api.locked, serving::ParseSamplingLocks(f.locked_sampling));
  return std::move(o);
}

}  // namespace

std::string DeviceWord(const DeviceOptions& device) {
  NUMOE_CHECK(!device.ordinal || device.kind == DeviceKind::kCuda) << "only a GPU has a number";
  if (device.ordinal) return fmt::format("cuda:{}", *device.ordinal);
  return device.kind == DeviceKind::kAuto ? "auto" : device.kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

absl::StatusOr<ServingCommand> ReadServingOptions(int argc, char** argv) {
  ServingFlags flags;
  if (const int code = ParseFlags(argc, argv, flags); code >= 0) return code;
  ASSIGN_OR_RETURN(ServingOptions options, OptionsFrom(std::move(flags)));
  return options;
}

}  // namespace numoe::startup
