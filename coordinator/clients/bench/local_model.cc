#include "coordinator/clients/bench/local_model.h"

#include <fmt/format.h>

#include <numeric>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/topology/topology.h"
#include "coordinator/execution/device/kv_block.h"

namespace numoe::clients {

absl::StatusOr<std::unique_ptr<LocalModel>> LocalModel::Load(const std::filesystem::path& dir,
                                                             const LocalModelOptions& options) {
  ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(options.activations));
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  ASSIGN_OR_RETURN(const std::optional<WeightFormat> format, ParseWeightFormatOrAuto(options.format));
  ASSIGN_OR_RETURN(const std::optional<WeightFormat> dense_format,
                   ParseWeightFormatOrAuto(options.dense_format));
  ASSIGN_OR_RETURN(const execution::CacheType cache_type, execution::ParseCacheType(options.kv_cache_dtype));
  NUMOE_CHECK(0 < options.step_tokens && options.step_tokens <= options.context_tokens);
  auto local = std::unique_ptr<LocalModel>(new LocalModel);
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(dir));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(dir));
  if (options.deferred_experts > 0 && options.deferred_experts >= config.experts_per_token) {
    return absl::InvalidArgumentError(
        fmt::format("{} deferred of the model's {} experts per token, expected fewer",
                    options.deferred_experts, config.experts_per_token));
  }
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  const std::vector<int> cpus = ComputeCpus(topology.nodes, options.threads);
  ASSIGN_OR_RETURN(local->executor_,
                   worker::ExpertExecutor::Load(
                       *checkpoint, config,
                       {.format = format, .isa = isa, .precision = precision, .threads = options.threads}));
  local->backend_ =
      std::make_unique<execution::LocalBackend>(std::vector<LayerExecutor*>{local->executor_.get()});
  ASSIGN_OR_RETURN(local->device_, execution::CpuDevice::Create({.step_tokens_max = options.step_tokens,
                                                                 .cpus = cpus,
                                                                 .isa = isa,
                                                                 .precision = precision,
                                                                 .dense_format = dense_format}));
  local->blocks_.resize(static_cast<size_t>(execution::KvBlocksFor(options.context_tokens)));
  std::iota(local->blocks_.begin(), local->blocks_.end(), KvBlockId{0});
  ASSIGN_OR_RETURN(local->model_,
                   execution::Model::Load(*checkpoint, config,
                                          {.kv_blocks = static_cast<int>(local->blocks_.size()),
                                           .kv_cache_type = cache_type,
                                           .deferred_experts = options.deferred_experts,
                                           .defer_always = true,
                                           .observe = options.observe},
                                          *local->device_, *local->backend_));
  return local;
}

absl::StatusOr<execution::StepLogits> LocalModel::Run(absl::Span<const TokenId> tokens, int64_t position,
                                                      int logits_last) {
  NUMOE_CHECK_LE(position + static_cast<int64_t>(tokens.size()),
                 static_cast<int64_t>(blocks_.size()) * execution::kKvBlockTokens);
  execution::StepBatch batch;
  batch.sequences.push_back(
      {.tokens = tokens, .position = position, .blocks = blocks_, .logits_last = logits_last});
  return model_->Forward(batch);
}

}  // namespace numoe::clients
