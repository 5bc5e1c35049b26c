#include "coordinator/startup/peer_flags.h"

#include <map>

namespace numoe::startup {
namespace {

using Words = std::map<std::string, std::string>;

// All of these models write their reasoning between <think> and </think>.
const Words& PeerReasoningParsers() {
  static const auto* const words =
      new Words{{"deepseek_r1", "think"}, {"deepseek-r1", "think"}, {"qwen3", "think"}, {"kimi_k2", "think"}};
  return *words;
}
const Words& PeerToolCallParsers() {
  static const auto* const words = new Words{
      {"deepseekv3", "deepseek_v3"}, {"qwen25", "hermes"}, {"qwen", "hermes"}, {"qwen3_xml", "qwen3_coder"}};
  return *words;
}

std::vector<std::string> With(std::vector<std::string> ours, const Words& peers) {
  for (const auto& [word, own] : peers) ours.push_back(word);
  return ours;
}

std::string OwnWord(const std::string& word, const Words& peers) {
  const auto found = peers.find(word);
  return found == peers.end() ? word : found->second;
}

void AddAliases(Flags& flags) {
  flags.Alias("model", {"model-path"});
  flags.Alias("served-model-name", {"alias"});
  flags.Alias("max-num-seqs", {"max-running-requests", "parallel"});
  flags.Alias("max-model-len", {"context-length"});
  flags.Alias("max-queued-requests", {"max-num-queued-reqs"});
  flags.Alias("max-num-batched-tokens", {"chunked-prefill-size"});
  flags.Alias("disable-prefix-caching", {"no-enable-prefix-caching", "disable-radix-cache"});
  flags.Alias("deterministic", {"enable-deterministic-inference"});
  flags.Alias("chat-template", {"chat-template-file"});
  flags.Alias("ssl-certfile", {"ssl-cert-file"});
  flags.Alias("ssl-keyfile", {"ssl-key-file"});
  flags.Alias("num-gpu-experts", {"kt-num-gpu-experts"});
  flags.Alias("max-deferred-experts-per-token", {"kt-max-deferred-experts-per-token"});
  flags.Alias("gpu-prefill-token-threshold", {"kt-gpu-prefill-token-threshold"});
}

void AddAdvice(Flags& flags) {
  flags.Instead({"tensor-parallel-size", "tp", "tp-size", "pipeline-parallel-size", "pp", "pp-size",
                 "data-parallel-size", "dp", "dp-size", "expert-parallel-size", "ep", "ep-size",
                 "enable-expert-parallel", "split-mode", "tensor-split", "nnodes", "node-rank"},
                "the expert workers divide the experts (--workers), and a coordinator uses one GPU; for "
                "several GPUs start a coordinator on each of them and numoe-router in front");
  flags.Instead({"gpu-memory-utilization", "mem-fraction-static"},
                "--gpu-memory takes the amount of GPU memory to use, such as 80GiB");
  flags.Instead(
      {"ctx-size", "c"},
      "--max-model-len is the context of one sequence, --max-total-tokens the size of the whole KV cache");
  flags.Instead({"batch-size", "ubatch-size", "b", "ub", "max-prefill-tokens"},
                "--max-num-batched-tokens is the maximum number of tokens of a step");
  flags.Instead({"cache-type-k", "cache-type-v", "ctk", "ctv"},
                "--kv-cache-dtype is the data type of the KV cache");
  flags.Instead(
      {"dtype", "quantization", "load-format"},
      "weights are used as published; --dense-format changes those of the coordinator, the workers' "
      "--format those of the experts");
  flags.Instead(
      {"n-gpu-layers", "gpu-layers", "ngl", "n-cpu-moe", "ncmoe", "cpu-moe", "cmoe", "override-tensor", "ot",
       "cpu-offload-gb"},
      "the expert workers compute the experts on CPUs; --device says where all other layers run, and "
      "--num-gpu-experts how many experts of each layer the GPU computes");
  flags.Instead({"kt-cpuinfer", "cpuinfer", "cpu-infer", "kt-threadpool-count", "threads-batch", "numa"},
                "each expert worker has --threads and is bound to a NUMA node; numoe-expert-worker "
                "--supervise starts one for each node");
  flags.Instead({"kt-weight-path", "kt-method", "kt-amx-weight-path"},
                "the expert workers load the experts: their --model, --format and --isa");
  flags.Instead({"mlock", "no-mmap", "mmap"}, "weights are read into memory at the start and stay there");
  flags.Instead({"max-num-queued-tokens"}, "--max-queued-requests is the maximum number of waiting requests");
  flags.Instead({"shutdown-timeout"}, "--drain-timeout-ms takes milliseconds");
  flags.Instead(
      {"watchdog-timeout", "soft-watchdog-timeout"},
      "--live-deadline-ms takes the milliseconds after which GET /live reports that the engine is stuck");
  flags.Instead({"otlp-traces-endpoint"}, "--otlp-endpoint takes the URL of a collector (OTLP over HTTP)");
  flags.Instead({"uvicorn-log-level", "log-level-http", "verbosity", "log-verbosity", "lv"},
                "--log-level is the level of all log lines");
  flags.Instead({"enforce-eager", "disable-cuda-graph", "cuda-graph-max-bs"}, "there is no such mode");
  flags.Instead({"enable-auto-tool-choice", "enable-metrics", "metrics", "jinja", "enable-prefix-caching",
                 "enable-chunked-prefill", "flash-attn", "fa", "cont-batching"},
                "this is always on; leave it out");
  flags.Instead({"np"}, "--max-num-seqs is the number of sequences that are computed at the same time");
  flags.Instead({"m"}, "--model names the model");
  flags.Instead({"t"}, "--threads is the number of compute threads");
  flags.Instead({"disable-log-requests", "enable-log-requests", "no-enable-log-requests"},
                "the log has a line with path and status for each request, and never a prompt; leave it out");
  flags.Instead({"block-size", "page-size", "swap-space", "attention-backend", "mm-processor-cache-gb"},
                "there is nothing to choose; leave it out");
  flags.Instead({"trust-remote-code"}, "no code that comes with a model is run; leave it out");
  flags.Instead({"tokenizer", "tokenizer-path", "hf-config-path", "generation-config"},
                "it is read from the folder or the file that --model names");
  flags.Instead(
      {"revision", "hf-repo", "hf-file", "hf", "hfr", "hff", "hft", "hf-token", "download-dir"},
      "numoe-download downloads a revision of a repository into a folder, which --model then names");
  flags.Instead({"chat-template-kwargs", "default-chat-template-kwargs"},
                "requests have chat_template_kwargs");
  flags.Instead({"seed", "random-seed", "temp", "temperature", "top-p", "top-k", "min-p", "repeat-penalty"},
                "requests choose it; --lock-sampling fixes a sampling parameter for all of them");
  flags.Instead({"speculative-config", "speculative-algorithm", "speculative-num-steps",
                 "speculative-draft-model-path", "model-draft", "md", "draft-max"},
                "speculative decoding is not supported yet");
  flags.Instead({"enable-lora", "lora-paths", "lora-modules", "lora"}, "LoRA adapters are not supported");
}

}  // namespace

std::vector<std::string> ReasoningParserWords() {
  return With({"auto", "think", "none"}, PeerReasoningParsers());
}
std::vector<std::string> ToolCallParserWords() {
  return With({"auto", "kimi_k2", "deepseek_v3", "hermes", "qwen3_coder", "none"}, PeerToolCallParsers());
}
std::string OwnReasoningParser(const std::string& word) { return OwnWord(word, PeerReasoningParsers()); }
std::string OwnToolCallParser(const std::string& word) { return OwnWord(word, PeerToolCallParsers()); }

void AddPeerFlags(Flags& flags) {
  AddAliases(flags);
  AddAdvice(flags);
}

}  // namespace numoe::startup
