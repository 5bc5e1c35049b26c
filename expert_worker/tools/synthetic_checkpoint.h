// A checkpoint of one MoE layer with random weights, in memory, for benchmarks of shapes that do not fit on a
// disk.
//
// All experts of the layer are windows into one pool of random weights, each at an offset of its own. That is
// cheap to create, and what the executor packs from it is as incompressible as real weights. For int8 and
// int4 the BF16 weights are chosen such that quantising them is lossless, so that errors come from the
// kernels only. Scales are chosen such that a layer's output has about the magnitude of its input.
#pragma once

#include <vector>

#include "common/kernels/kernels.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"

namespace numoe::worker {

struct SyntheticOptions {
  int hidden_size = 0;
  int intermediate_size = 0;
  int experts = 0;
  int experts_per_token = 8;
  WeightFormat format = WeightFormat::kRawInt4;  // decides how it is stored: INT4, FP8, GGUF blocks or BF16
};

class SyntheticCheckpoint final : public Checkpoint {
 public:
  explicit SyntheticCheckpoint(const SyntheticOptions& options);

  const ModelConfig& config() const { return config_; }

  bool Has(std::string_view) const override { return false; }
  absl::StatusOr<TensorView> Find(std::string_view tensor) const override;
  absl::StatusOr<std::vector<float>> ReadVector(std::string_view tensor, int64_t size) const override;
  absl::StatusOr<MatrixView> FindMatrix(std::string_view module, int64_t rows, int64_t cols,
                                        const ModelConfig& config) const override;
  std::vector<std::string> TensorNames() const override { return {}; }
  uint64_t TotalBytes() const override { return pool_.size(); }
  absl::StatusOr<uint64_t> Fingerprint() const override { return 0; }

 private:
  ModelConfig config_;
  MatrixFormat stored_;
  GgmlType ggml_;                  // if stored_ is kGgml
  std::vector<std::byte> pool_;    // codes or elements
  std::vector<std::byte> scales_;  // BF16 for INT4 groups, F32 for FP8 blocks; empty for GGUF blocks
};

}  // namespace numoe::worker
