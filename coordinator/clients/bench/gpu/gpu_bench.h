// The measurements of numoe-gpu-bench, which compare the CUDA device with the limits of the card.
//
//   BenchDriver     what the device expects: pinning in a capture, copies next to a waiting kernel
//   BenchAttention  MLA decode over the paged cache, and prefill over expanded keys
//   BenchExperts    hot INT4 experts, with few tokens and with many rows
//   BenchFetch      layers whose experts are fetched over PCIe while the layer before is computed
//   BenchHandover   layer calls from the device to a worker process and back, as one graph
//   BenchStep       a decode step of the whole model as a graph; the worker answers zeros
//   BenchHybrid     the same with a worker that computes, compared with the slower of both sides
//   BenchOverlap    steps of prompts with a worker that computes, alternately whole and in halves
//
// The sizes are those of Kimi-K2 unless a test makes them small. `worker` (bench_worker.h) is started before
// the runtime is opened. The functions return the device's errors, after they have reported the earlier
// results. For use by one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/weights/model_config.h"
#include "coordinator/clients/bench/gpu/bench_context.h"
#include "coordinator/clients/bench/gpu/bench_worker.h"
#include "coordinator/execution/device/cuda/kernels/attention_latent.h"

namespace numoe::clients {

struct DriverSizes {
  size_t pinned_bytes = size_t{1} << 30;  // of each of three buffers; a multiple of 2 MiB
};
/// Reports every check; INTERNAL: some have failed. Needs no earlier measurement.
absl::Status BenchDriver(execution::cuda::Runtime& runtime, const DriverSizes& sizes,
                         const BenchReport& report);

struct DecodePoint {
  int batch = 0;
  int context = 0;  // of each sequence
};

struct AttentionSizes {
  int heads = 64;
  execution::cuda::LatentWidths widths;
  int nope = 128;
  int value = 128;
  std::vector<DecodePoint> decode = {{32, 8192}, {1, 131072}};
  int prefill_tokens = 16384;
  int expanded_rows = 8192;  // rows of a pass, as on the device
  int layers = 4;            // whose caches are read in turn, so that the card's own caches do not help
};
absl::Status BenchAttention(BenchContext& context, const AttentionSizes& sizes);

struct ExpertBenchSizes {
  int hidden = 7168;
  int width = 2048;
  int experts_per_token = 8;
  int slots = 64;  // among which few tokens select
  std::vector<int> tokens = {1, 2, 4, 8};
  std::vector<int> rows = {64, 128, 256};  // rows that each of experts_per_token experts computes
};
absl::Status BenchExperts(BenchContext& context, const ExpertBenchSizes& sizes);

struct FetchSizes {
  int hidden = 7168;
  int width = 2048;
  int experts = 64;  // of a layer; each token chooses experts_per_token
  int experts_per_token = 8;
  int layers = 6;  // host memory has the experts' bytes of each layer
  std::vector<int> tokens = {1024, 8192, 32768};
};
absl::Status BenchFetch(BenchContext& context, const FetchSizes& sizes);

struct HandoverSizes {
  int hidden = 7168;
  int experts_per_token = 8;
  int layers = 60;
  std::vector<int> rows = {1, 8, 32};
};
absl::Status BenchHandover(BenchContext& context, BenchWorker& worker, const HandoverSizes& sizes);

struct StepSizes {
  ModelConfig config;
  int context = 1024;  // tokens before the decoded one
  int steps = 30;
  int prompt_tokens = 1024;  // of a step of BenchOverlap, after the context; at least kMeasuredTokensMin
};
/// Takes the runtime, which the model's device then owns and on which `limits` were measured.
absl::Status BenchStep(std::unique_ptr<execution::cuda::Runtime> runtime, const GpuLimits& limits,
                       BenchWorker& worker, const StepSizes& sizes, const BenchReport& report);
/// REQUIRES: `worker` has experts.
absl::Status BenchHybrid(std::unique_ptr<execution::cuda::Runtime> runtime, const GpuLimits& limits,
                         BenchWorker& worker, const StepSizes& sizes, const BenchReport& report);
/// REQUIRES: `worker` has experts.
absl::Status BenchOverlap(std::unique_ptr<execution::cuda::Runtime> runtime, const GpuLimits& limits,
                          BenchWorker& worker, const StepSizes& sizes, const BenchReport& report);

/// Returns Kimi-K2's shape with fewer layers or experts; layer 0 is dense, as in Kimi-K2.
ModelConfig K2Config(int layers, int experts);

}  // namespace numoe::clients
