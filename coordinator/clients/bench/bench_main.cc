// numoe-bench: measures how fast a whole model runs on this machine, for comparisons with other engines.
//
// `model` computes a prompt and then decodes one sequence greedily in this process, without a network, and
// prints tokens per second with each part's share of the time. Weights may be random: only the dimensions
// matter. The headers NAME_bench.h describe the other commands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>

#include "common/base/check.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "coordinator/clients/bench/device_bench.h"
#include "coordinator/clients/bench/local_model.h"
#include "coordinator/clients/bench/serve_bench.h"
#include "coordinator/clients/bench/stream_bench.h"
#include "coordinator/clients/bench/text_bench.h"
#include "coordinator/execution/sampling/sampler.h"

namespace numoe::clients {
namespace {

struct ModelBenchOptions {
  std::string model;
  LocalModelOptions local;
  int prefill = 512;
  int decode = 64;
  int context = 0;  // tokens before the decoded ones, at least those of the prompt
  int chunk = 512;  // tokens of the prompt in one step
  bool json = false;
};

// The time of a phase: the parts that the model reports, and sampling.
class PhaseTimes {
 public:
  void Begin() {
    parts_ = {};
    sampling_ = 0;
    begin_ = Clock::now();
  }
  void AddPart(execution::StepPart part, double seconds) {
    NUMOE_DCHECK(static_cast<size_t>(part) < execution::kStepParts && seconds >= 0);
    parts_[static_cast<size_t>(part)] += seconds;
  }
  template <typename F>
  auto Sampling(F sample) {
    const Clock::time_point start = Clock::now();
    auto result = sample();
    sampling_ += std::chrono::duration<double>(Clock::now() - start).count();
    return result;
  }
  // Returns the seconds since Begin and each part's share of them by name; "other" is the rest.
  std::pair<double, std::vector<std::pair<std::string, double>>> Shares() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    double other = seconds - sampling_;
    std::vector<std::pair<std::string, double>> shares;
    for (size_t p = 0; p < execution::kStepParts; ++p) {
      shares.emplace_back(execution::kStepPartNames[p], parts_[p] / seconds);
      other -= parts_[p];
    }
    shares.emplace_back("sampling", sampling_ / seconds);
    shares.emplace_back("other", other / seconds);
    return {seconds, shares};
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<double, execution::kStepParts> parts_ = {};
  double sampling_ = 0;
  Clock::time_point begin_;
};

class ModelBench {
 public:
  explicit ModelBench(const ModelBenchOptions& options) : options_(options) {}

  absl::Status Run() {
    if (options_.context > 0 && options_.context < options_.prefill) {
      return absl::InvalidArgumentError(fmt::format(
          "--context={}: expected at least --prefill={}, whose tokens are in the cache when decoding "
          "begins",
          options_.context, options_.prefill));
    }
    LocalModelOptions local = options_.local;
    context_ = std::max(options_.prefill, options_.context);
    local.context_tokens = context_ + options_.decode;
    local.step_tokens = std::min(options_.chunk, context_);
    local.observe = [this](execution::StepPart part, double seconds) { times_.AddPart(part, seconds); };
    ASSIGN_OR_RETURN(model_, LocalModel::Load(options_.model, local));
    std::mt19937 random(1);
    std::vector<TokenId> prompt(static_cast<size_t>(context_));
    for (TokenId& t : prompt)
      t = static_cast<TokenId>(random() % static_cast<unsigned>(model_->config().vocab_size));
    sampler_ = std::make_unique<execution::Sampler>(model_->config().vocab_size);
    RETURN_IF_ERROR(
        model_->Run(absl::MakeConstSpan(prompt).subspan(0, 1), 0, 1).status());  // reads all weights once
    times_.Begin();
    ASSIGN_OR_RETURN(TokenId next, Prefill(prompt, 0, options_.prefill));
    Report("prefill", options_.prefill, 0);
    if (context_ > options_.prefill) {
      ASSIGN_OR_RETURN(next, Prefill(prompt, options_.prefill, context_));
    }
    times_.Begin();
    RETURN_IF_ERROR(Decode(next));
    Report("decode", options_.decode, context_);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<TokenId> Best(const execution::StepLogits& logits) {
    NUMOE_CHECK(logits.rows == 1 && logits.drawn.empty()) << "the logits of the last token were requested";
    return times_.Sampling([&] {
      return sampler_->Sample(logits.values.last(static_cast<size_t>(logits.vocab_size)), {.temperature = 0});
    });
  }

  // Computes the prompt tokens [begin, end) in chunks; returns the next token.
  absl::StatusOr<TokenId> Prefill(absl::Span<const TokenId> prompt, int begin, int end) {
    NUMOE_CHECK(begin < end && static_cast<size_t>(end) <= prompt.size()) << begin << " to " << end;
    TokenId next = 0;
    for (int at = begin; at < end; at += options_.chunk) {
      const auto tokens =
          prompt.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(options_.chunk, end - at)));
      ASSIGN_OR_RETURN(const execution::StepLogits logits, model_->Run(tokens, at, 1));
      ASSIGN_OR_RETURN(next, Best(logits));
    }
    return next;
  }

  absl::Status Decode(TokenId token) {
    for (int i = 0; i < options_.decode; ++i) {
      ASSIGN_OR_RETURN(const execution::StepLogits logits, model_->Run({&token, 1}, context_ + i, 1));
      ASSIGN_OR_RETURN(token, Best(logits));
    }
    return absl::OkStatus();
  }

  void Report(const char* phase, int tokens, int context) const {
    const auto [seconds, shares] = times_.Shares();
    std::string line =
        options_.json
            ? fmt::format(R"({{"model": "{}", "format": "{}", "dense_format": "{}", "phase": "{}", )"
                          R"("tokens": {}, "context": {}, "seconds": {:.4f}, "tokens_per_second": {:.3f})",
                          std::filesystem::weakly_canonical(options_.model).filename().string(),
                          options_.local.format, options_.local.dense_format, phase, tokens, context, seconds,
                          tokens / seconds)
            : fmt::format("{}: {} tokens after {} in {:.3f} s, {:.2f} tok/s\n", phase, tokens, context,
                          seconds, tokens / seconds);
    for (const auto& [name, share] : shares) {
      line += fmt::format(fmt::runtime(options_.json ? R"(, "{}_share": {:.4f})" : "  {:18}{:7.3f}\n"), name,
                          share);
    }
    std::puts((line + (options_.json ? "}" : "")).c_str());
    std::fflush(stdout);
  }

  const ModelBenchOptions options_;
  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<execution::Sampler> sampler_;
  PhaseTimes times_;
  int context_ = 0;  // tokens in the cache when decoding begins
};

void AddModelBench(Flags& flags, ModelBenchOptions& o) {
  Flags& model =
      flags.Command("model", "Measures prefill and decode of one sequence, in one process without a network");
  model.Add("model", o.model, "Checkpoint directory, or a .gguf file").Required();
  model.Add("prefill", o.prefill, "Tokens of the prompt, whose computation is timed").Range(1, 1 << 17);
  model.Add("decode", o.decode, "Tokens to decode").Range(1, 1 << 16);
  model
      .Add("context", o.context,
           "Tokens in the KV cache when decoding begins; if there are more than --prefill, the rest is "
           "computed without being timed")
      .Range(0, 1 << 17);
  model.Add("chunk", o.chunk, "Maximum number of prompt tokens in one step").Range(1, 8192);
  model.Add("format", o.local.format, "Format of the experts: auto (as published), " + WeightFormatNames());
  model.Add("dense-format", o.local.dense_format,
            "Format of the dense matrices: auto (as published), bf16, int8, int4");
  model.Add("kv-cache-dtype", o.local.kv_cache_dtype,
            "Data type of the KV cache: auto (bf16), bf16, fp8_e4m3");
  model.Add("activations", o.local.activations,
            "Precision of the activations: auto, bf16, fp32 (see numoe-coordinator --help)");
  model.Add("isa", o.local.isa, "Instruction set of the kernels: auto, scalar, avx2, avx512, amx");
  model.Add("threads", o.local.threads, "Compute threads; 0: one for each core that this process may use")
      .Range(0, limits::kThreadsMax);
  model.AddSwitch("json", o.json, "Print the results as one JSON object per line");
}

Flags& AddDeviceBench(Flags& flags, DeviceBenchOptions& d) {
  Flags& device = flags.Command(
      "device",
      "Measures dense products and attention on the CPU and compares them with this machine's limits");
  device.Add("shape", d.shape, "Model whose dimensions are used: qwen3-30b, qwen3-235b, k2, deepseek-v3");
  device.Add("dense-format", d.dense_format, "Format of the dense matrices: bf16, fp8, int8, int4");
  device.Add("kv-cache-dtype", d.kv_cache_dtype, "Data type of the KV cache: bf16, fp8_e4m3");
  device.Add("isa", d.isa, "Instruction set of the kernels: auto, scalar, avx2, avx512, amx");
  device.Add("tokens", d.tokens, "Numbers of tokens in a step, separated by commas")
      .CommaSeparated()
      .Range(1, 8192);
  device.Add("contexts", d.contexts, "Context lengths for attention in tokens, separated by commas")
      .CommaSeparated()
      .Range(1, 1 << 17);
  device.Add("threads", d.threads, "Compute threads; 0: one for each CPU that this process may use")
      .Range(0, limits::kThreadsMax);
  device.AddSwitch("json", d.json, "Print the results as one JSON object per line");
  return device;
}

Flags& AddTextBench(Flags& flags, TextBenchOptions& t) {
  Flags& text =
      flags.Command("text", "Measures tokenizing, chat templates and the parsing of answers, on one thread");
  text.Add("model", t.model, "Folder with a tokenizer, or a .gguf file").Required();
  text.Add("template", t.templates,
           "File with a chat template; can be given several times. Default: the model's own")
      .HideDefault();
  text.Add("text", t.texts,
           "Text file to tokenize; can be given several times. Default: generated English and Chinese text")
      .HideDefault();
  text.Add("save-texts", t.save_texts, "Folder to write the texts to, as NAME.txt");
  text.Add("save-tokens", t.save_tokens, "Folder to write the tokens of the texts to, as NAME.ids");
  text.AddSwitch("json", t.json, "Print the results as one JSON object per line");
  return text;
}

Flags& AddStreamBench(Flags& flags, StreamBenchOptions& s) {
  Flags& streams = flags.Command(
      "streams", "Measures a server with many streams at the same time on one CPU, without a model");
  streams.Add("model", s.model, "Folder with a tokenizer and a chat template, or a .gguf file").Required();
  streams.Add("streams", s.streams, "Number of streams at the same time").Range(1, 30'000);
  streams.Add("tokens-per-second", s.tokens_per_second, "Tokens per second of each stream").Range(1, 1000);
  streams.AddSwitch("together", s.together,
                    "Send the tokens of all streams at the same moment, instead of evenly spread");
  streams.Add("prompt-bytes", s.prompt_bytes, "Bytes of text in the prompt of each request")
      .Range(1, 1 << 20);
  streams.Add("seconds", s.seconds, "Duration of the measurement in seconds").Range(1, 3600);
  streams.Add("http-threads", s.http_threads, "HTTP threads of the server, which share one CPU").Range(1, 64);
  streams.AddSwitch("json", s.json, "Print the results as one JSON object per line");
  return streams;
}

}  // namespace
}  // namespace numoe::clients

int main(int argc, char** argv) {
  numoe::clients::ModelBenchOptions o;
  numoe::Flags flags("numoe-bench",
                     "Measures how fast a complete model, its parts or a server run on this machine.",
                     numoe::FlagSources::kCommandLine);
  numoe::clients::AddModelBench(flags, o);
  numoe::clients::DeviceBenchOptions d;
  numoe::Flags& device = numoe::clients::AddDeviceBench(flags, d);
  numoe::clients::TextBenchOptions t;
  numoe::Flags& text = numoe::clients::AddTextBench(flags, t);
  numoe::clients::StreamBenchOptions many;
  numoe::Flags& streams = numoe::clients::AddStreamBench(flags, many);
  numoe::clients::ServeBenchOptions s;
  numoe::Flags& serve = numoe::clients::AddServeBench(flags, s);
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  absl::Status status = numoe::SetupLogging({.level = "warning", .program = "numoe-bench"});
  if (status.ok() && text.Given()) return numoe::clients::RunTextBench(t);
  if (status.ok() && streams.Given()) return numoe::clients::RunStreamBench(many);
  if (status.ok() && device.Given()) return numoe::clients::RunDeviceBench(d);
  if (status.ok() && serve.Given()) {
    status = numoe::clients::CheckServeFlags(serve, s);
    if (status.ok()) return numoe::clients::RunServeBench(s);
  }
  if (status.ok()) status = numoe::clients::ModelBench(o).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}
