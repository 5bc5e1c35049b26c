// CpuDevice: the coordinator's model on host memory, for machines without a GPU.
//
// Activations are fp32, weights are packed for the matrix kernels (cpu_store.h), and the KV cache is BF16 or
// FP8 (cache_memory.h). The device lends its scratch to one step at a time (cpu_step.h). Results do not
// depend on the number of threads. Owned by the engine's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "coordinator/execution/device/cpu/cpu_attention.h"
#include "coordinator/execution/device/cpu/cpu_latent_attention.h"
#include "coordinator/execution/device/cpu/cpu_linear.h"
#include "coordinator/execution/device/cpu/cpu_store.h"
#include "coordinator/execution/device/device.h"

namespace numoe::execution {

struct CpuDeviceOptions {
  int step_tokens_max = 2048;                // rows of every activation tensor
  std::vector<int> cpus;                     // one thread for each; the calling thread runs on the first
  std::optional<Isa> isa;                    // the best that this CPU supports if nullopt
  Precision precision = Precision::kFast;    // of activations in products with weights
  std::optional<WeightFormat> dense_format;  // of dense matrices; the published format if nullopt
  bool measure_only = false;                 // may load models, but cannot run them
};

class CpuDevice final : public Device {
 public:
  /// FAILED_PRECONDITION: the CPU lacks the instruction set.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Create(const CpuDeviceOptions& options);

  CpuStore& store() override { return store_; }
  absl::Status ReserveKvCache(const KvCacheSize& size) override { return store_.ReserveKvCache(size); }
  void ConnectExperts(ExpertBackend& experts) override { experts_ = &experts; }
  std::unique_ptr<Step> Begin(const StepLayout& layout) override;
  DeviceMemory memory() const override { return store_.memory(); }
  std::string Describe() const override;

 private:
  CpuDevice(const CpuDeviceOptions& options, Isa isa);

  const Isa isa_;
  const Precision precision_;
  ThreadPool pool_;
  CpuStore store_;
  CpuLinear linear_;
  CpuAttention attention_;
  CpuLatentAttention latent_attention_;
  std::vector<float> gate_logits_;           // scratch of a step
  std::vector<std::vector<float>> cos_sin_;  // scratch of a step
  ExpertBackend* experts_ = nullptr;
};

}  // namespace numoe::execution
