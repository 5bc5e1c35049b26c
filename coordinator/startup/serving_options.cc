#include "coordinator/startup/serving_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "common/base/check.h"
#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/transport/peer_credentials.h"
#include "common/transport/transport_limits.h"
#include "common/weights/model_place.h"
#include "common/weights/weights_limits.h"
#include "coordinator/net/http/server_flags.h"
#include "coordinator/startup/peer_flags.h"
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
           "Addresses of all expert workers, HOST:PORT or unix:PATH, separated by commas; required, except "
           "with --plan")
      .CommaSeparated();
  flags.Add("worker-ssl-certfile", f.options.workers.tls.certificate,
            "PEM file with the certificate chain that the coordinator presents to workers at HOST:PORT "
            "(mutual TLS); needs --worker-ssl-keyfile and --worker-ssl-ca-certs. Default: plain text");
  flags.Add("worker-ssl-keyfile", f.options.workers.tls.key,
            "PEM file with the private key of --worker-ssl-certfile");
  flags.Add("worker-ssl-ca-certs", f.options.workers.tls.ca_certs,
            "PEM file with the certificate authorities (CAs) that the workers' certificates must come from");
}

void AddApiFlags(Flags& flags, ServingFlags& f) {
  flags
      .Add(
          "reasoning-parser", f.options.api.reasoning_parser,
          "How reasoning is separated from the answer: think (it is the text between <think> and </think>), "
          "none (not at all), auto (think if the vocabulary has these two tokens), or think by the name that "
          "vLLM or SGLang has for a model's parser")
      .OneOf(ReasoningParserWords());
  flags
      .Add(
          "tool-call-parser", f.options.api.tool_call_parser,
          "Format in which the model writes tool calls: auto (chosen by the vocabulary and the chat "
          "template), kimi_k2, deepseek_v3, hermes, qwen3_coder, none, or a name that vLLM or SGLang has for "
          "one of these")
      .OneOf(ToolCallParserWords());
  flags.Add("chat-template", f.options.api.chat_template,
            "File with the chat template (Jinja) to use instead of the model's own");
  flags
      .Add("lock-sampling", f.locked_sampling,
           "Sampling parameters to lock, as NAME=NUMBER or NAME=LOW..HIGH, separated by commas, such as "
           "temperature=0.6..1.0; a request that asks for another value is refused. The prefix thinking: or "
           "instant: applies a lock only to conversations that may think or that switch thinking off, as in "
           "thinking:temperature=1.0,instant:temperature=0.6")
      .CommaSeparated();
  flags
      .Add("request-timeout-s", f.options.api.request_timeout_s,
           "Seconds after which a request ends with what was generated so far, or with status 504 if that is "
           "nothing, unless the request has a timeout of its own; 0: no limit")
      .NonNegative();
}

constexpr int64_t kStartTimeoutMsMax = int64_t{366} * 24 * 3600 * 1000;  // a year; the clock has nanoseconds

void AddCapacityFlags(Flags& flags, ServingFlags& f) {
  flags
      .Add("max-num-seqs", f.options.capacity.sequences_max,
           "Maximum number of sequences that are computed at the same time; others wait in the queue")
      .Range(1, limits::kRunningSequencesMax);
  flags
      .Add("max-num-batched-tokens", f.options.capacity.step_tokens,
           "Maximum number of tokens, of prompts and answers together, in one model step; at least "
           "--max-num-seqs. Larger steps need more memory")
      .Range(1, limits::kCallTokensMax);
  flags
      .Add("max-model-len", f.options.capacity.model_len_max,
           "Maximum number of tokens of one sequence, prompt and answer together. 0: the model's own limit; "
           "the model's limit and the size of the KV cache always apply as well")
      .Range(int64_t{0}, limits::kPositionsMax);
  flags
      .Add("max-total-tokens", f.options.capacity.kv_tokens,
           "Size of the KV cache in tokens. 0: on a CPU 4096 tokens for each of --max-num-seqs sequences; on "
           "a GPU the memory that is left after everything else, up to what these sequences can use")
      .Range(int64_t{0}, limits::kKvTokensMax);
  flags
      .Add("kv-cache-dtype", f.kv_cache_dtype,
           "Data type of the KV cache: auto (bf16), bf16 (or bfloat16), fp8_e4m3 (or fp8), which takes about "
           "half the memory of bf16")
      .OneOf({"auto", "bf16", "bfloat16", "fp8_e4m3", "fp8"});
  flags
      .Add("max-queued-requests", f.options.queue_max,
           "Maximum number of waiting requests; further ones are refused with status 429. An API key that "
           "has no waiting request may always add one")
      .Range(1, 1 << 20);
  flags.AddSwitch("plan", f.options.plan,
                  "Print how much memory the model takes and exit without serving. With --gpu-memory, plan "
                  "for a GPU of that size, which does not have to be in this machine");
}

void AddEngineFlags(Flags& flags, ServingFlags& f) {
  flags
      .Add("data-path", f.data_path,
           "How layer calls reach the workers: auto (shared memory if the worker is on this host and offers "
           "it, otherwise gRPC), shm (shared memory only), grpc")
      .OneOf({"auto", "shm", "grpc"});
  flags.Add("shared-memory-group", f.shared_memory_group,
            "Group (name or number) whose processes may share memory with the coordinator, in addition to "
            "processes of its own user and of root. The coordinator must be a member, and the workers need "
            "the same flag; default: none");
  flags
      .Add("worker-start-timeout-ms", f.options.workers.start_timeout_ms,
           "Milliseconds that the start waits for the workers while nothing moves: no worker becomes ready, "
           "and none loads more of its weights. Then the coordinator exits with an error; 0: no limit")
      .Range(int64_t{0}, kStartTimeoutMsMax);
  flags
      .Add("worker-deadline-ms", f.options.worker_deadline_ms,
           "Milliseconds that requests wait for a lost worker to come back before they end with an error")
      .NonNegative();
  flags
      .Add("drain-timeout-ms", f.options.drain_timeout_ms,
           "Milliseconds that running requests may still take after SIGTERM before they are ended")
      .NonNegative();
  flags
      .Add("live-deadline-ms", f.options.live_deadline_ms,
           "Milliseconds that the engine may compute without starting or ending a layer call before GET "
           "/live reports it as stuck; the time that a call waits for the workers does not count")
      .Positive();
  flags.AddSwitch("deterministic", f.options.deterministic,
                  "Give the same text for the same request and seed whatever other requests run. This costs "
                  "speed, because neither the chunks of prompts nor the kernels adapt to the load");
  flags.AddSwitch("disable-prefix-caching", f.disable_prefix_caching,
                  "Compute every prompt from its first token instead of reusing the KV cache of earlier "
                  "prompts that begin alike");
  flags.AddSwitch("share-prefix-cache", f.options.share_prefix_cache,
                  "Let all API keys reuse each other's cached prompt prefixes. How soon an answer begins "
                  "then tells a key whether another one has sent the same prompt");
  flags
      .Add("decode-stretch-max", f.options.decode_stretch_max,
           "Limit on how much longer a step may take because it also computes prompt tokens, as a multiple "
           "of a step that only decodes; 0: no limit. Smaller values keep answers steady, larger ones finish "
           "prompts sooner; not used with --deterministic")
      .Range(0.0, 1e6);
  flags
      .Add("max-deferred-experts-per-token", f.options.deferred_experts,
           "Number of each token's routed experts, those with the smallest weights, whose results are added "
           "one layer later, so that the workers compute them during the next layer's attention; 0: none, "
           "exact. Applies to steps that only decode, and with --deterministic to all steps")
      .Range(0, limits::kExpertsPerTokenMax - 1);
  flags.Add("two-batch-overlap", f.two_batch_overlap,
            "Smallest number of tokens of a step that is split into two halves, so that the device computes "
            "one half while the workers compute the experts of the other. auto: split where a measurement "
            "finds that faster, if there is a GPU or a worker at HOST:PORT; off: never split");
}

// The exit code to leave with, or -1 to go on.
int ParseFlags(int argc, char** argv, ServingFlags& f) {
  Flags flags("numoe-coordinator",
              "NUMoE coordinator: computes attention and routing and serves the APIs of OpenAI, Anthropic "
              "and SGLang. Expert workers "
              "compute the routed experts.");
  flags
      .Add("model", f.options.model,
           "Model to serve: a checkpoint directory (config.json, *.safetensors, tokenizer files), a .gguf "
           "file, or the name of a repository (ORG/NAME) in Hugging Face's cache on this host")
      .Required();
  AddWorkerFlags(flags, f);
  flags
      .Add("served-model-name", f.options.served_model_names,
           "Names of the model in the API, separated by commas; metrics and traces use the first one. "
           "Default: the name of the directory, of the file without .gguf, or of the repository")
      .CommaSeparated();
  net::AddServerFlags(flags, {f.options.api.server, f.options.api.access, f.options.api.port_file});
  AddApiFlags(flags, f);
  AddCapacityFlags(flags, f);
  AddEngineFlags(flags, f);
  flags.Add("isa", f.isa,
            "Instruction set of the CPU kernels: auto (the best that this CPU supports), scalar, avx2, "
            "avx512, amx");
  flags.Add("dense-format", f.dense_format,
            "Format in which the CPU device holds the matrices of attention, dense layers, shared experts "
            "and the output head: auto (as published), bf16, int8, int4. int8 and int4 save memory, but may "
            "round the weights");
  flags.Add("activations", f.activations,
            "Precision of the activations on the CPU. auto: INT8 where many tokens are multiplied by INT4 or "
            "INT8 weights, otherwise BF16 or two INT8 rows (15 bits together); bf16: the latter for any "
            "number of tokens; fp32: exact and slow");
  flags
      .Add("threads", f.options.device.threads,
           "Compute threads of the CPU device; 0: one for each CPU that this process may use, fewer under a "
           "CPU quota")
      .Range(0, limits::kThreadsMax);
  flags.Add("device", f.device,
            "Where attention and dense layers run: auto (a GPU if there is one that can be used, otherwise "
            "the CPU), cpu, cuda, cuda:N (GPU number N, by default 0)");
  flags.Add("gpu-memory", f.gpu_memory,
            "Maximum amount of GPU memory to use, such as 80GiB or 24GB; default: all that is free");
  flags.Add("num-gpu-experts", f.num_gpu_experts,
            "Number of routed experts of each layer, the most used ones, that the GPU holds and computes "
            "instead of the workers; 0: none, auto: as many as fit");
  flags.Add("gpu-prefill-token-threshold", f.gpu_prefill_token_threshold,
            "Smallest number of prompt tokens of a step for which the GPU fetches the experts from the "
            "memory of the workers (which need --share-experts) and computes them itself. auto: from where "
            "that is faster, measured at start; off: never");
  flags.Add("expert-heat-file", f.options.expert_heat_file,
            "File that keeps how often each expert is used, so that --num-gpu-experts finds the most used "
            "ones right after a restart. Default: none, counting starts from zero after each start");
  flags.Add("memory-reservations", f.options.memory_reservations,
            "Folder in which all NUMoE processes of one user on this host record how much memory they will "
            "take. It must have mode 700 and be used for nothing else; auto: /dev/shm/numoe-UID");
  flags.Add("otlp-endpoint", f.options.otlp_endpoint,
            "OpenTelemetry collector that request traces are sent to (OTLP over HTTP), such as "
            "http://HOST:4318; default: none");
  flags
      .Add("trace-ratio", f.options.trace_ratio,
           "Share (0 to 1) of requests that are traced with --otlp-endpoint, where the client's traceparent "
           "header does not decide")
      .Range(0.0, 1.0);
  flags.AddSwitch("core-dumps", f.options.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.options.log.level,
            "Least severe messages that are logged: debug, info, warning, error");
  flags.Add("log-format", f.options.log.format, "Format of log lines: text or json");
  AddPeerFlags(flags);
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
  o.api.reasoning_parser = OwnReasoningParser(o.api.reasoning_parser);
  o.api.tool_call_parser = OwnToolCallParser(o.api.tool_call_parser);
  RETURN_IF_ERROR(CheckTogether(o));
  ASSIGN_OR_RETURN(o.api.locked, serving::ParseSamplingLocks(f.locked_sampling));
  ASSIGN_OR_RETURN(ModelPlace place, FindModel(o.model));
  o.model = std::move(place.path);
  if (o.served_model_names.empty()) o.served_model_names = {std::move(place.name)};
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
