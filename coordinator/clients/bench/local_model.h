// LocalModel: a whole model in one process, with the parts of coordinator and workers and without a network.
//
// For tools that evaluate or time the model itself. One executor with complete experts computes the experts,
// and the CPU device computes the rest. For use by one thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cpu/cpu_device.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/local_backend.h"
#include "expert_worker/experts/expert_executor.h"

namespace numoe::clients {

struct LocalModelOptions {
  std::string format = "auto";          // of the experts: auto | raw_int4 | int4 | int8 | bf16 | fp8
  std::string dense_format = "auto";    // of dense matrices: auto (as published), or a WeightFormat's name
  std::string kv_cache_dtype = "auto";  // ParseCacheType
  std::string isa = "auto";
  std::string activations = "auto";        // auto | bf16 | fp32
  int threads = 0;                         // 0: every CPU that this process may use
  int context_tokens = 2048;               // of the one sequence
  int step_tokens = 2048;                  // of the largest step
  int deferred_experts = 0;                // ModelOptions::deferred_experts, in all steps
  execution::StepClock::Observer observe;  // ModelOptions::observe
};

class LocalModel {
 public:
  /// Returns the errors of the checkpoint, the executor and the device.
  static absl::StatusOr<std::unique_ptr<LocalModel>> Load(const std::filesystem::path& dir,
                                                          const LocalModelOptions& options);

  /// Runs one step of the one sequence: `tokens` at `position`, after the tokens of earlier steps. Returns
  /// the logits of the last `logits_last` of them, valid until the next call. REQUIRES: position + tokens is
  /// at most context_tokens, and tokens at most step_tokens.
  absl::StatusOr<execution::StepLogits> Run(absl::Span<const TokenId> tokens, int64_t position,
                                            int logits_last);

  std::string Describe() const { return executor_->Describe(); }
  const ModelConfig& config() const { return model_->config(); }

 private:
  LocalModel() = default;

  std::unique_ptr<worker::ExpertExecutor> executor_;
  std::unique_ptr<execution::LocalBackend> backend_;
  std::unique_ptr<execution::CpuDevice> device_;
  std::unique_ptr<execution::Model> model_;
  std::vector<KvBlockId> blocks_;
};

}  // namespace numoe::clients
