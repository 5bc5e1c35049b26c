// Measures whole steps of the model as in the server: decode steps as one captured graph, in which kernels
// call the workers, and steps of prompts in halves, in which the host calls them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/clients/bench/gpu/synthetic_model.h"
#include "coordinator/clients/bench/gpu/timed_runtime.h"
#include "coordinator/execution/device/cuda/cuda_device.h"
#include "coordinator/execution/device/kv_block.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/expert_fan_out.h"

namespace numoe::clients {
namespace {

constexpr int kUncounted = 4;  // steps: one through the host, one captured, and two for warming up
constexpr int64_t kStepPatienceMs = 120'000;

/// Returns the bytes of weights that a decode step reads: one row of the embedding, and kv_b_proj without the
/// copy that prompts use.
double StepWeightBytes(const ModelConfig& c) {
  NUMOE_CHECK_EQ(c.layer_is_moe.size(), static_cast<size_t>(c.num_layers));
  const double hidden = c.hidden_size, heads = c.num_heads, latent = c.kv_lora_rank;
  const double query = c.qk_nope_head_dim + c.qk_rope_head_dim;
  const double attention =
      hidden * c.q_lora_rank + c.q_lora_rank * heads * query + hidden * (latent + c.qk_rope_head_dim) +
      heads * latent * (c.qk_nope_head_dim + c.v_head_dim) + heads * c.v_head_dim * hidden;
  const auto moe = static_cast<double>(std::count(c.layer_is_moe.begin(), c.layer_is_moe.end(), true));
  const double shared = 3.0 * hidden * c.moe_intermediate_size * c.num_shared_experts;
  const double values = c.num_layers * attention + moe * shared +
                        (c.num_layers - moe) * 3.0 * hidden * c.intermediate_size + hidden * c.vocab_size;
  return values * sizeof(execution::cuda::Bf16) + moe * hidden * c.num_experts * sizeof(float);  // the gates
}

/// A device with the model.
class StepModel {
 public:
  static absl::StatusOr<std::unique_ptr<StepModel>> Create(std::unique_ptr<execution::cuda::Runtime> runtime,
                                                           const StepSizes& sizes, int rows = 8) {
    auto model = std::unique_ptr<StepModel>(new StepModel(sizes));
    ASSIGN_OR_RETURN(auto timed, TimedRuntime::Create(std::move(runtime)));
    model->runtime_ = timed.get();
    model->blocks_.resize(static_cast<size_t>((sizes.context + rows) / execution::kKvBlockTokens + 1));
    std::iota(model->blocks_.begin(), model->blocks_.end(), KvBlockId{0});
    ASSIGN_OR_RETURN(
        model->device_,
        execution::cuda::CudaDevice::Create(
            {.rows = rows, .sequences = 1, .blocks_per_sequence = static_cast<int>(model->blocks_.size())},
            std::move(timed)));
    return model;
  }

  /// Loads the model's weights; `worker` has the experts.
  absl::Status Load(BenchWorker& worker, Metrics& metrics, int overlap_tokens = execution::kNoOverlap) {
    const ModelConfig& config = sizes_.config;
    NUMOE_CHECK(worker.options().hidden == config.hidden_size &&
                worker.options().experts == config.num_experts);
    ASSIGN_OR_RETURN(
        experts_, execution::ExpertFanOut::Connect({.addresses = {worker.address()},
                                                    .link = {.data_path = execution::DataPath::kSharedMemory,
                                                             .hidden_size = config.hidden_size,
                                                             .num_experts = config.num_experts,
                                                             .call_deadline_ms = kStepPatienceMs},
                                                    .start_deadline_ms = kStepPatienceMs},
                                                   metrics));
    const SyntheticModel checkpoint(config);
    ASSIGN_OR_RETURN(
        model_,
        execution::Model::Load(checkpoint, config,
                               {.kv_blocks = static_cast<int>(blocks_.size()),
                                .logit_rows_max = 1,
                                .overlap_tokens = overlap_tokens,
                                .observe_expert_execution =
                                    [this](execution::ExpertExecution execution) { execution_ = execution; }},
                               *device_, *experts_));
    return absl::OkStatus();
  }

  /// The median times in seconds of a step's graph on the device, and of the whole step by the host's clock.
  struct Times {
    double graph = 0;
    double wall = 0;
  };
  absl::StatusOr<Times> Run(BenchWorker& worker) {
    std::vector<double> graphs, walls;
    for (int n = 0; n < kUncounted + sizes_.steps; ++n) {
      const TokenId token = n % sizes_.config.vocab_size;
      if (n == kUncounted) worker.TakeSecondsPerCall();
      const auto begin = std::chrono::steady_clock::now();
      RETURN_IF_ERROR(model_
                          ->Forward({.sequences = {{.tokens = absl::MakeConstSpan(&token, 1),
                                                    .position = sizes_.context,
                                                    .blocks = blocks_}}})
                          .status());
      const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (n < kUncounted) continue;
      walls.push_back(wall);
      ASSIGN_OR_RETURN(const std::optional<double> graph, runtime_->TakeGraphSeconds());
      if (!graph) return absl::InternalError("a decode step did not run as a graph");
      graphs.push_back(*graph);
    }
    return Times{Median(std::move(graphs)), Median(std::move(walls))};
  }

  /// The median times in seconds of a prompt's step, whole and in halves, and which of the two the model
  /// keeps.
  struct OverlapTimes {
    double whole = 0;
    double halves = 0;
    execution::ExpertExecution kept = execution::ExpertExecution::kWhole;
  };
  absl::StatusOr<OverlapTimes> RunPrompts() {
    NUMOE_CHECK_GE(sizes_.prompt_tokens, execution::kMeasuredTokensMin)
        << "with fewer tokens no step is tried in halves";
    const std::vector<TokenId> tokens(static_cast<size_t>(sizes_.prompt_tokens), 7);
    std::vector<double> whole, halves;
    for (int n = 0; n <= execution::kTrialSteps; ++n) {
      const auto begin = std::chrono::steady_clock::now();
      RETURN_IF_ERROR(
          model_->Forward({.sequences = {{.tokens = tokens, .position = sizes_.context, .blocks = blocks_}}})
              .status());
      if (n == execution::kTrialSteps) break;
      (execution_ == execution::ExpertExecution::kHalves ? halves : whole)
          .push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    if (whole.empty() || halves.empty()) return absl::InternalError("steps were not tried both ways");
    return OverlapTimes{Median(std::move(whole)), Median(std::move(halves)), execution_};
  }

  const execution::cuda::DeviceFacts& facts() const { return runtime_->facts(); }

 private:
  explicit StepModel(const StepSizes& sizes) : sizes_(sizes) {}

  const StepSizes sizes_;
  TimedRuntime* runtime_ = nullptr;  // device_ owns it
  std::vector<KvBlockId> blocks_;
  std::unique_ptr<execution::cuda::CudaDevice> device_;
  std::unique_ptr<execution::ExpertFanOut> experts_;
  std::unique_ptr<execution::Model> model_;
  execution::ExpertExecution execution_ = execution::ExpertExecution::kWhole;  // of the last step
};

}  // namespace

absl::Status BenchStep(std::unique_ptr<execution::cuda::Runtime> runtime, const GpuLimits& limits,
                       BenchWorker& worker, const StepSizes& sizes, const BenchReport& report) {
  worker.SetComputing(false);
  Metrics metrics(MetricOwner::kCoordinator);
  ASSIGN_OR_RETURN(const auto model, StepModel::Create(std::move(runtime), sizes));
  RETURN_IF_ERROR(model->Load(worker, metrics));
  ASSIGN_OR_RETURN(const StepModel::Times times, model->Run(worker));
  const double bytes = StepWeightBytes(sizes.config);
  const double bound = bytes / (limits.read_gb_per_s * 1e9);
  report({{"op", "decode_step"},
          {"layers", sizes.config.num_layers},
          {"batch", 1},
          {"context", sizes.context},
          {"experts", "answered with zeros"},
          {"gpu", model->facts().name},
          {"graph_ms", times.graph * 1e3},
          {"wall_ms", times.wall * 1e3},
          {"weight_gb", bytes / 1e9},
          {"bound_ms", bound * 1e3},
          {"times_bound", times.graph / bound},
          {"limit_read_gb_per_s", limits.read_gb_per_s}});
  return absl::OkStatus();
}

absl::Status BenchHybrid(std::unique_ptr<execution::cuda::Runtime> runtime, const GpuLimits& limits,
                         BenchWorker& worker, const StepSizes& sizes, const BenchReport& report) {
  Metrics metrics(MetricOwner::kCoordinator);
  ASSIGN_OR_RETURN(const auto model, StepModel::Create(std::move(runtime), sizes));
  RETURN_IF_ERROR(model->Load(worker, metrics));
  const std::vector<bool>& moe = sizes.config.layer_is_moe;
  const auto layers = static_cast<double>(std::count(moe.begin(), moe.end(), true));
  NUMOE_CHECK(layers > 0 && worker.options().width > 0) << "the worker has experts";
  worker.SetComputing(false);
  ASSIGN_OR_RETURN(const StepModel::Times alone, model->Run(worker));
  worker.SetComputing(true);
  ASSIGN_OR_RETURN(const StepModel::Times both, model->Run(worker));
  const double cpu = worker.TakeSecondsPerCall() * layers;
  report({{"op", "hybrid_layer"},
          {"moe_layers", static_cast<int>(layers)},
          {"batch", 1},
          {"experts", sizes.config.num_experts},
          {"gpu", model->facts().name},
          {"us", both.graph / layers * 1e6},
          {"gpu_us", alone.graph / layers * 1e6},
          {"cpu_us", cpu / layers * 1e6},
          {"times_slower_side", both.graph / std::max(alone.graph, cpu)},
          {"limit_read_gb_per_s", limits.read_gb_per_s}});
  return absl::OkStatus();
}

absl::Status BenchOverlap(std::unique_ptr<execution::cuda::Runtime> runtime, const GpuLimits& limits,
                          BenchWorker& worker, const StepSizes& sizes, const BenchReport& report) {
  Metrics metrics(MetricOwner::kCoordinator);
  ASSIGN_OR_RETURN(const auto model, StepModel::Create(std::move(runtime), sizes, sizes.prompt_tokens));
  NUMOE_CHECK_GT(worker.options().width, 0) << "the worker has experts";
  RETURN_IF_ERROR(model->Load(worker, metrics, execution::kMeasuredOverlap));
  worker.SetComputing(true);
  worker.TakeSecondsPerCall();
  ASSIGN_OR_RETURN(const StepModel::OverlapTimes times, model->RunPrompts());
  report({{"op", "two_batch_overlap"},
          {"layers", sizes.config.num_layers},
          {"tokens", sizes.prompt_tokens},
          {"context", sizes.context},
          {"experts", sizes.config.num_experts},
          {"gpu", model->facts().name},
          {"whole_ms", times.whole * 1e3},
          {"halves_ms", times.halves * 1e3},
          {"gain", times.whole / times.halves},
          {"kept", std::string(execution::kExpertExecutionNames[static_cast<size_t>(times.kept)])},
          {"call_ms", worker.TakeSecondsPerCall() * 1e3},
          {"limit_read_gb_per_s", limits.read_gb_per_s}});
  return absl::OkStatus();
}

ModelConfig K2Config(int layers, int experts) {
  ModelConfig config;
  config.model_type = "kimi_k2";
  config.hidden_size = 7168;
  config.num_layers = layers;
  config.layer_attention.assign(static_cast<size_t>(layers), AttentionKind::kMla);
  config.vocab_size = 163840;
  config.max_position_embeddings = 131072;
  config.num_heads = 64;
  config.q_lora_rank = 1536;
  config.kv_lora_rank = 512;
  config.qk_nope_head_dim = 128;
  config.qk_rope_head_dim = 64;
  config.v_head_dim = 128;
  config.rope.dim = 64;
  config.intermediate_size = 18432;
  config.moe_intermediate_size = 2048;
  config.num_experts = experts;
  config.experts_per_token = 8;
  NUMOE_CHECK(layers > 1 && experts >= config.experts_per_token) << layers << " layers";
  config.num_shared_experts = 1;
  config.layer_is_moe.assign(static_cast<size_t>(layers), true);
  config.layer_is_moe[0] = false;
  config.routed_scaling_factor = 2.827;
  return config;
}

}  // namespace numoe::clients
