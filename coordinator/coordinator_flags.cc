#include "coordinator/coordinator_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/transport/peer_credentials.h"
#include "common/transport/transport_limits.h"
#include "common/weights/weights_limits.h"
#include "coordinator/api/sampling_fields.h"
#include "coordinator/coordinator_limits.h"
#include "coordinator/http/server_flags.h"
#include "coordinator/model/step_overlap.h"

namespace numoe {
namespace {

void AddWorkerFlags(Flags& flags, CoordinatorFlags& f) {
  flags
      .Add("workers", f.workers,
           "Addresses of all expert workers: HOST:PORT or unix:PATH, separated by commas; needed but for "
           "--plan")
      .CommaSeparated();
  flags.Add("worker-ssl-certfile", f.worker_tls.certificate,
            "PEM file with the certificate chain that workers at HOST:PORT are shown (mutual TLS); default: "
            "plain text");
  flags.Add("worker-ssl-keyfile", f.worker_tls.key, "PEM file with its key");
  flags.Add("worker-ssl-ca-certs", f.worker_tls.ca_certs,
            "PEM file with the CAs that workers' certificates are of");
}

void AddApiFlags(Flags& flags, CoordinatorFlags& f) {
  flags
      .Add("reasoning-parser", f.reasoning_parser,
           "What tells reasoning from the answer: auto (by the vocabulary), think, none")
      .OneOf({"auto", "think", "none"});
  flags
      .Add("tool-call-parser", f.tool_call_parser,
           "Form of tool calls: auto (by vocabulary and template), kimi_k2, deepseek_v3, hermes, "
           "qwen3_coder, none")
      .OneOf({"auto", "kimi_k2", "deepseek_v3", "hermes", "qwen3_coder", "none"});
  flags
      .Add("lock-sampling", f.locked_sampling,
           "NAME=NUMBER, separated by commas: sampling parameters that no request may choose otherwise")
      .CommaSeparated();
  flags.Add("request-timeout-s", f.request_timeout_s, "How long a request may take, in seconds; 0: any time")
      .NonNegative();
}

void AddEngineFlags(Flags& flags, CoordinatorFlags& f) {
  flags.Add("max-num-seqs", f.max_num_seqs, "Sequences that run at once").Range(1, 4096);
  flags.Add("max-num-batched-tokens", f.max_num_batched_tokens, "Tokens in one step")
      .Range(1, limits::kCallTokensMax);
  flags
      .Add("max-model-len", f.max_model_len,
           "Context length, prompt and answer; 0: the model's, as far as the cache holds it")
      .Range(int64_t{0}, limits::kPositionsMax);
  flags
      .Add("max-total-tokens", f.max_total_tokens,
           "Tokens in the KV cache; 0: room for max-num-seqs of 4096 tokens, on a GPU all that the rest "
           "leaves")
      .Range(int64_t{0}, limits::kKvTokensMax);
  flags
      .Add("kv-cache-dtype", f.kv_cache_dtype,
           "KV cache in: auto (bf16), bf16 (bfloat16), fp8_e4m3 (fp8): about half the bytes of bf16")
      .OneOf({"auto", "bf16", "bfloat16", "fp8_e4m3", "fp8"});
  flags
      .Add("max-queued-requests", f.queue_max,
           "Requests waiting before 429; an API key that has none waiting may always add one")
      .Range(1, 1 << 20);
  flags.Add("data-path", f.data_path, "Layer calls over: auto, shm, grpc").OneOf({"auto", "shm", "grpc"});
  flags.Add("ring-group", f.ring_group_name,
            "Group, by name or number, whose processes' shared memory is used besides that of this one's own "
            "user and root; this process must be in it; give both ends the same; default: none");
  flags
      .Add("worker-start-timeout-ms", f.worker_start_timeout_ms,
           "How long the start waits for all workers, who may be loading; 0: for ever")
      .NonNegative();
  flags.Add("worker-deadline-ms", f.worker_deadline_ms, "How long requests wait for a lost worker")
      .NonNegative();
  flags.Add("drain-timeout-ms", f.drain_timeout_ms, "How long running requests may finish after SIGTERM")
      .NonNegative();
  flags
      .Add("live-deadline-ms", f.live_deadline_ms,
           "How long the engine may spend on one layer before /live says that the process is stuck")
      .Positive();
  flags.AddSwitch("deterministic", f.deterministic,
                  "The same request and seed give the same text under any load");
  flags.AddSwitch("disable-prefix-caching", f.disable_prefix_caching,
                  "Compute every prompt from its first token, whatever was computed before");
  flags.AddSwitch("share-prefix-cache", f.share_prefix_cache,
                  "What was computed for one API key is used for the others, too: how soon an answer begins "
                  "then tells a key what another one has asked");
  flags
      .Add("decode-stretch-max", f.decode_stretch_max,
           "How much longer a step may take for prompts while others decode, as a factor; 0: any")
      .Range(0.0, 1e6);
  flags
      .Add("max-deferred-experts-per-token", f.deferred_experts,
           "Routed experts of a token that arrive one layer later, those with the smallest weights: the "
           "workers compute them during the next layer's attention; 0: none, exact")
      .Range(0, limits::kExpertsPerTokenMax - 1);
  flags.Add("two-batch-overlap", f.two_batch_overlap,
            "Tokens of a step from which on it is cut in two halves, of which the device computes one while "
            "the workers have the other; auto: where that measures faster, with a GPU or with workers on "
            "other hosts; off: never");
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

bool IsNumberedGpu(const std::string& device) {
  constexpr std::string_view kCuda = "cuda:";
  const bool named = device.rfind(kCuda, 0) == 0;
  return named && device.size() > kCuda.size() && device.size() <= kCuda.size() + 3 &&
         device.find_first_not_of("0123456789", kCuda.size()) == std::string::npos;
}

// "temperature=1.0" and the like.
absl::StatusOr<std::vector<std::pair<std::string, double>>> ParseLocks(
    const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, double>> locks;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    double value = 0;
    const char* const end = text.data() + text.size();
    const char* const number = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto read = std::from_chars(number, end, value);
    if (equals == 0 || read.ec != std::errc() || read.ptr != end) {
      return absl::InvalidArgumentError(
          fmt::format("--lock-sampling: expected NAME=NUMBER, found \"{}\"", text));
    }
    locks.emplace_back(text.substr(0, equals), value);
    RETURN_IF_ERROR(Annotate(CheckSamplingValue(locks.back().first, value), "--lock-sampling"));
  }
  return locks;
}

absl::Status CompleteOverlap(CoordinatorFlags& f) {
  const std::string& text = f.two_batch_overlap;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, f.overlap_tokens);
  if (text == "off") {
    f.overlap_tokens = kNoOverlap;
  } else if (text == "auto") {
    f.overlap_tokens = kMeasuredOverlap;
  } else if (read.ec != std::errc() || read.ptr != end || f.overlap_tokens < kOverlapTokensMin) {
    return absl::InvalidArgumentError(
        fmt::format("--two-batch-overlap: found \"{}\", expected auto, off or a number of tokens from {} on",
                    text, kOverlapTokensMin));
  }
  return absl::OkStatus();
}

absl::Status CompletePrefillThreshold(CoordinatorFlags& f) {
  const std::string& text = f.gpu_prefill_token_threshold;
  if (text == "off") return absl::OkStatus();
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, f.gpu_prefill_tokens);
  if (text == "auto") {
    f.gpu_prefill_tokens = -1;
  } else if (read.ec != std::errc() || read.ptr != end || f.gpu_prefill_tokens < 2) {
    return absl::InvalidArgumentError(fmt::format(
        "--gpu-prefill-token-threshold: found \"{}\", expected auto, off or a number of tokens from 2 on",
        text));
  }
  if (f.deterministic)
    return absl::InvalidArgumentError(
        "--gpu-prefill-token-threshold with --deterministic: expected one of them, where a prompt is "
        "computed "
        "depends on what runs beside it");
  if (f.data_path == "grpc")
    return absl::InvalidArgumentError(
        "--gpu-prefill-token-threshold with --data-path=grpc: the workers' memory is reached through shared "
        "memory only");
  return absl::OkStatus();
}

}  // namespace

int ParseCoordinatorFlags(int argc, char** argv, CoordinatorFlags& f) {
  Flags flags(
      "numoe-coordinator",
      "NUMoE coordinator: attention, routing and the OpenAI API; routed experts come from expert workers.");
  flags
      .Add("model", f.model,
           "Checkpoint directory (config.json, *.safetensors, tokenizer files), or a .gguf file")
      .Required();
  AddWorkerFlags(flags, f);
  flags.Add("served-model-name", f.served_model_name,
            "Model name in the API; default: the directory's or file's name");
  AddServerFlags(flags, {f.server, f.access, f.port_file});
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
  flags.Add("threads", f.threads, "Compute threads; 0: every CPU this process may use")
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
  flags.Add("expert-heat-file", f.expert_heat_file,
            "File that keeps the experts' use over restarts; default: it is measured anew");
  flags.AddSwitch(
      "plan", f.plan,
      "Say what the model takes of memory and end; with --gpu-memory for a GPU that need not be here");
  flags.Add(
      "memory-reservations", f.memory_reservations,
      "Folder in which the daemons of one user on this host tell each other what memory they will take: with "
      "mode 700, for this alone, the same for all of them; auto: /dev/shm/numoe-UID");
  flags.Add(
      "otlp-endpoint", f.otlp_endpoint,
      "OpenTelemetry collector (OTLP over HTTP, http://HOST:4318) that traces of requests go to; default: "
      "none");
  flags
      .Add("trace-ratio", f.trace_ratio,
           "Share of the requests that are traced where the client's traceparent does not say, 0 to 1")
      .Range(0.0, 1.0);
  flags.AddSwitch("core-dumps", f.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.log.level, "debug, info, warning, error");
  flags.Add("log-format", f.log.format, "text or json");
  return flags.Parse(argc, argv);
}

absl::Status CompleteFlags(CoordinatorFlags& f) {
  if (f.model.empty()) return absl::InvalidArgumentError("--model is empty: expected a path");
  if (f.workers.empty() && !f.plan)
    return absl::InvalidArgumentError("--workers is missing: expected the addresses of all expert workers");
  RETURN_IF_ERROR(SelectIsa(f.isa).status());
  if (f.device != "auto" && f.device != "cpu" && f.device != "cuda" && !IsNumberedGpu(f.device)) {
    return absl::InvalidArgumentError(
        fmt::format("--device: found \"{}\", expected auto, cpu, cuda or cuda:N", f.device));
  }
  if (f.num_gpu_experts != "auto") {
    int experts = -1;
    const char* const end = f.num_gpu_experts.data() + f.num_gpu_experts.size();
    const auto read = std::from_chars(f.num_gpu_experts.data(), end, experts);
    if (read.ec != std::errc() || read.ptr != end || experts < 0 || experts > limits::kGpuExpertsMax) {
      return absl::InvalidArgumentError(
          fmt::format("--num-gpu-experts: found \"{}\", expected auto or 0 to {}", f.num_gpu_experts,
                      limits::kGpuExpertsMax));
    }
  }
  RETURN_IF_ERROR(CompleteOverlap(f));
  RETURN_IF_ERROR(CompletePrefillThreshold(f));
  for (const std::string& worker : f.workers) RETURN_IF_ERROR(CheckWorkerAddress(worker));
  ASSIGN_OR_RETURN(f.ring_group, ParseRingGroup(f.ring_group_name));
  RETURN_IF_ERROR(CheckAllOrNone(f.worker_tls));
  if (f.served_model_name.empty()) {
    const std::filesystem::path model = std::filesystem::weakly_canonical(f.model);
    f.served_model_name = (model.extension() == ".gguf" ? model.stem() : model.filename()).string();
  }
  if (f.share_prefix_cache && f.disable_prefix_caching) {
    return absl::InvalidArgumentError(
        "--share-prefix-cache with --disable-prefix-caching: expected one of them, without a cache there is "
        "nothing to share");
  }
  if (f.max_num_batched_tokens < f.max_num_seqs) {
    return absl::InvalidArgumentError(
        fmt::format("--max-num-batched-tokens={}: expected at least --max-num-seqs={}, one token for each",
                    f.max_num_batched_tokens, f.max_num_seqs));
  }
  if (f.deterministic && f.deferred_experts > 0 && f.max_num_batched_tokens > limits::kDeferringTokensMax) {
    return absl::InvalidArgumentError(fmt::format(
        "--max-num-batched-tokens={} with --deterministic and --max-deferred-experts-per-token={}: "
        "expected at most {}",
        f.max_num_batched_tokens, f.deferred_experts, limits::kDeferringTokensMax));
  }
  RETURN_IF_ERROR(CheckServerFlags(f.server));
  ASSIGN_OR_RETURN(f.locked, ParseLocks(f.locked_sampling));
  return absl::OkStatus();
}

}  // namespace numoe
