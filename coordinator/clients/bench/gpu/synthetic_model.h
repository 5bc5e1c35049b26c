// SyntheticModel: a checkpoint in memory of any shape with random BF16 weights, for benchmarks of whole
// models.
//
// Every matrix is a window, at its own offset, into one pool that is as large as the largest matrix: a device
// that loads the model stores as many bytes as for a real model, and nothing is read from a disk. Norms are 1
// and biases 0. The weights are small enough for sums over layers to stay finite. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/weights/checkpoint.h"

namespace numoe::clients {

class SyntheticModel final : public Checkpoint {
 public:
  explicit SyntheticModel(const ModelConfig& config);

  bool Has(std::string_view) const override { return false; }
  absl::StatusOr<TensorView> Find(std::string_view tensor) const override;
  absl::StatusOr<std::vector<float>> ReadVector(std::string_view tensor, int64_t size) const override;
  absl::StatusOr<MatrixView> FindMatrix(std::string_view module, int64_t rows, int64_t cols,
                                        const ModelConfig& config) const override;
  std::vector<std::string> TensorNames() const override { return {}; }
  uint64_t TotalBytes() const override { return pool_.size(); }
  absl::StatusOr<uint64_t> Fingerprint() const override { return 0; }

 private:
  std::vector<std::byte> pool_;
};

}  // namespace numoe::clients
