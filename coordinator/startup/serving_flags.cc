#include "coordinator/startup/serving_flags.h"

#include <algorithm>
#include <cstddef>

#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/unused_flags.h"
#include "common/kernels/kernels.h"
#include "common/transport/transport_limits.h"
#include "common/weights/weights_limits.h"
#include "coordinator/net/http/server_flags.h"
#include "coordinator/startup/peer_flags.h"
#include "coordinator/startup/startup_limits.h"

namespace numoe::startup {
namespace {

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
           "Milliseconds to wait at the start for workers that make no progress, neither by becoming ready "
           "nor by loading more of their weights. Then the coordinator exits with an error; 0: no limit")
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

void AddDeviceFlags(Flags& flags, ServingFlags& f) {
  flags.Add("isa", f.isa,
            "Instruction set of the CPU kernels: auto (the best that this CPU supports), scalar, avx2, "
            "avx512, amx");
  flags.Add("dense-format", f.dense_format,
            "Format in which the CPU device holds the matrices of attention, dense layers, shared experts "
            "and the output head: auto (as published), bf16, int8, int4. int8 and int4 save memory, but may "
            "round the weights");
  flags.Add("activations", f.activations,
            "Precision of the activations on the CPU. bf16: BF16, or two INT8 values that hold 15 bits "
            "together; auto: the same, but INT8 where many tokens are multiplied by INT4 or INT8 weights; "
            "fp32: exact and slow");
  flags
      .Add("threads", f.options.device.threads,
           "Compute threads of the CPU device; 0: one for each core that this process may use (a second "
           "hyperthread would only compete for the core's caches), fewer under a CPU quota")
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
            "memory of the workers (which need --share-experts) and computes them itself. auto: the number "
            "from which that is faster, measured at the start; off: never");
  flags.Add("expert-heat-file", f.options.expert_heat_file,
            "File that keeps how often each expert is used, so that --num-gpu-experts finds the most used "
            "ones right after a restart. Default: none, counting starts from zero after each start");
  flags.Add("memory-reservations", f.options.memory_reservations,
            "Folder in which all NUMoE processes of one user on this host record how much memory they will "
            "take. It must have mode 700 and be used for nothing else; auto: /dev/shm/numoe-UID");
}

// Records the flags about workers and steps that change nothing when combined with the others.
void FindUnusedEngineFlags(const ServingFlags& f, UnusedFlags& unused) {
  const std::vector<std::string>& workers = f.options.workers.addresses;
  const auto unix_workers = std::count_if(workers.begin(), workers.end(), IsUnixAddress);
  if (!workers.empty() && unix_workers == static_cast<std::ptrdiff_t>(workers.size())) {
    for (const char* const name : {"worker-ssl-certfile", "worker-ssl-keyfile", "worker-ssl-ca-certs"}) {
      unused.Add(name,
                 "does nothing if all --workers are at unix:PATH, because a socket is guarded by its file's "
                 "permissions and stays plain text; leave it out");
    }
  }
  if (!workers.empty() && unix_workers == 0 && f.data_path == "grpc") {
    unused.Add(
        "shared-memory-group",
        "does nothing with --data-path=grpc and --workers at HOST:PORT, because no memory is shared with "
        "them; leave it out");
  }
  if (f.options.deterministic) {
    unused.Add(
        "decode-stretch-max",
        "does nothing with --deterministic, which divides a prompt in the same way whatever the load is; "
        "leave one of them out");
    const bool number = f.two_batch_overlap != "auto" && f.two_batch_overlap != "off";
    if (number && f.options.deferred_experts > 0) {
      unused.Add("two-batch-overlap",
                 "does nothing with --deterministic and --max-deferred-experts-per-token, because every step "
                 "defers experts then, and such steps are not split; leave one of the three out");
    }
  }
}

// Records the flags that change nothing when combined with the others, whatever the machine and the model.
void FindUnused(const Flags& flags, ServingFlags& f) {
  const ServingOptions& o = f.options;
  UnusedFlags unused(flags);
  net::FindUnusedServerFlags(o.api.access, unused);
  if (o.share_prefix_cache && o.api.access.keys.empty() && o.api.access.key_file.empty()) {
    unused.Add(
        "share-prefix-cache",
        "does nothing without API keys, because all requests share the prefix cache then; leave it out, or "
        "add --api-key-file");
  }
  if (o.otlp_endpoint.empty()) {
    unused.Add("trace-ratio",
               "does nothing without --otlp-endpoint, because nothing is traced; add "
               "--otlp-endpoint=http://HOST:4318, or leave the flag out");
  }
  if (f.num_gpu_experts == "0") {
    unused.Add("expert-heat-file",
               "does nothing with --num-gpu-experts=0, because no GPU holds routed experts; add "
               "--num-gpu-experts=auto, or leave the flag out");
  }
  FindUnusedEngineFlags(f, unused);
  f.unused = unused.refusal();
  f.options.notes = unused.notes();
  f.options.typed = flags.typed();
}

}  // namespace

int ParseServingFlags(int argc, char** argv, ServingFlags& f) {
  Flags flags("numoe-coordinator",
              "NUMoE coordinator: computes attention and routing and serves the APIs of OpenAI, Anthropic "
              "and SGLang. Expert workers compute the routed experts.");
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
  AddDeviceFlags(flags, f);
  flags.Add("otlp-endpoint", f.options.otlp_endpoint,
            "OpenTelemetry collector that request traces are sent to (OTLP over HTTP), such as "
            "http://HOST:4318; default: none");
  flags
      .Add("trace-ratio", f.options.trace_ratio,
           "Share (0 to 1) of requests that are traced with --otlp-endpoint; for a request with a "
           "traceparent header that header decides")
      .Range(0.0, 1.0);
  flags.AddSwitch("core-dumps", f.options.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.options.log.level, kLogLevelHelp);
  flags.Add("log-format", f.options.log.format, "Format of log lines: text or json");
  AddPeerFlags(flags);
  const int code = flags.Parse(argc, argv);
  if (code < 0) FindUnused(flags, f);
  return code;
}

bool IsUnixAddress(const std::string& address) { return address.rfind("unix:", 0) == 0; }

}  // namespace numoe::startup
