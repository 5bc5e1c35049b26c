// numoe-bench: what a whole model reaches on this machine. The tool that compares with other engines.
//
// `model` runs a prompt and then greedy decoding of one sequence in this process, without a network, and
// prints tokens a second with each part's share of the time. Weights may be random: only the dimensions
// matter.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "common/observe/logging.h"
#include "coordinator/tools/local_model.h"

namespace numoe {
namespace {

struct ModelBenchOptions {
  std::string model;
  LocalModelOptions local;
  int prefill = 512;
  int decode = 64;
  int chunk = 512;  // tokens of the prompt in one step
  bool json = false;
};

using Seconds = std::array<double, 3>;  // by LayerPart

class ModelBench {
 public:
  explicit ModelBench(const ModelBenchOptions& options) : options_(options) {}

  absl::Status Run() {
    LocalModelOptions local = options_.local;
    local.context_tokens = options_.prefill + options_.decode;
    local.observe = [this](LayerPart part, double seconds) { parts_[static_cast<size_t>(part)] += seconds; };
    ASSIGN_OR_RETURN(model_, LocalModel::Load(options_.model, local));
    std::mt19937 random(1);
    std::vector<TokenId> prompt(static_cast<size_t>(options_.prefill));
    for (TokenId& t : prompt)
      t = static_cast<TokenId>(random() % static_cast<unsigned>(model_->config().vocab_size));
    RETURN_IF_ERROR(
        model_->Run(absl::MakeConstSpan(prompt).subspan(0, 1), 0, 1).status());  // touches everything once
    if (!options_.json) std::puts("phase     tokens   seconds     tok/s  attention   dense  experts    rest");
    ASSIGN_OR_RETURN(const TokenId first, Prefill(prompt));
    return Decode(first);
  }

 private:
  static TokenId Best(const StepLogits& logits) {
    const absl::Span<const float> row = logits.values.last(static_cast<size_t>(logits.vocab_size));
    return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  }

  absl::StatusOr<TokenId> Prefill(absl::Span<const TokenId> prompt) {
    Begin();
    TokenId next = 0;
    for (size_t at = 0; at < prompt.size(); at += static_cast<size_t>(options_.chunk)) {
      const auto tokens = prompt.subspan(at, static_cast<size_t>(options_.chunk));
      ASSIGN_OR_RETURN(const StepLogits logits, model_->Run(tokens, static_cast<int64_t>(at), 1));
      next = Best(logits);
    }
    Report("prefill", options_.prefill);
    return next;
  }

  absl::Status Decode(TokenId token) {
    Begin();
    for (int i = 0; i < options_.decode; ++i) {
      ASSIGN_OR_RETURN(const StepLogits logits, model_->Run({&token, 1}, options_.prefill + i, 1));
      token = Best(logits);
    }
    Report("decode", options_.decode);
    return absl::OkStatus();
  }

  void Begin() {
    parts_ = {};
    begin_ = std::chrono::steady_clock::now();
  }

  void Report(const char* phase, int tokens) const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const double rest = seconds - parts_[0] - parts_[1] - parts_[2];
    const char* line =
        options_.json ? R"({{"phase": "{}", "tokens": {}, "seconds": {:.4f}, "tokens_per_second": {:.3f}, )"
                        R"("attention_share": {:.4f}, "dense_share": {:.4f}, "experts_share": {:.4f}, )"
                        R"("rest_share": {:.4f}}})"
                      : "{:8} {:7} {:9.3f} {:9.2f}  {:9.3f} {:7.3f}  {:7.3f} {:7.3f}";
    std::puts(fmt::format(fmt::runtime(line), phase, tokens, seconds, tokens / seconds, parts_[0] / seconds,
                          parts_[1] / seconds, parts_[2] / seconds, rest / seconds)
                  .c_str());
    std::fflush(stdout);
  }

  const ModelBenchOptions options_;
  std::unique_ptr<LocalModel> model_;
  Seconds parts_ = {};
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace
}  // namespace numoe

int main(int argc, char** argv) {
  numoe::ModelBenchOptions o;
  CLI::App app("Measures what a whole model reaches on this machine.", "numoe-bench");
  app.require_subcommand(1);
  CLI::App* model =
      app.add_subcommand("model", "Prefill and decode of one sequence, in one process, without a network");
  model->add_option("--model", o.model, "Checkpoint folder")->required();
  model->add_option("--prefill", o.prefill, "Tokens of the prompt")
      ->check(CLI::Range(1, 1 << 17))
      ->capture_default_str();
  model->add_option("--decode", o.decode, "Tokens to decode")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  model->add_option("--chunk", o.chunk, "Tokens of the prompt in one step")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  model->add_option("--format", o.local.format, "Of the experts: auto, raw_int4, int4, int8, bf16, fp8")
      ->capture_default_str();
  model->add_option("--activations", o.local.activations, "auto, bf16, fp32")->capture_default_str();
  model->add_option("--isa", o.local.isa, "auto, scalar, avx2, avx512, amx")->capture_default_str();
  model->add_option("--threads", o.local.threads, "Compute threads; 0: every CPU")->capture_default_str();
  model->add_flag("--json", o.json, "One JSON object per line");
  CLI11_PARSE(app, argc, argv);
  absl::Status status = numoe::SetupLogging({.level = "warning", .program = "numoe-bench"});
  if (status.ok()) status = numoe::ModelBench(o).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}
