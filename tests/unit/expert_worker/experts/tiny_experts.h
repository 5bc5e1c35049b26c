// A checkpoint of two layers, the second with experts, for the tests of this folder.
//
// Sizes are chosen as edge cases: hidden 160 is not a multiple of fp8's block, of two panels or of a task;
// intermediate 384 can be divided by 1, 2 and 3 workers in every format's blocks.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/weights/checkpoint.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {

inline constexpr int kHidden = 160;
inline constexpr int kIntermediate = 384;
inline constexpr int kExperts = 6;
inline constexpr LayerId kDenseLayer = 0;
inline constexpr LayerId kMoeLayer = 1;

inline ModelConfig TinyConfig() {
  ModelConfig config;
  config.model_type = "kimi_k25";
  config.tensor_prefix = "language_model.";
  config.hidden_size = kHidden;
  config.num_layers = 2;
  config.moe_intermediate_size = kIntermediate;
  config.num_experts = kExperts;
  config.experts_per_token = 2;
  config.layer_is_moe = {false, true};
  return config;
}

inline std::string ExpertModule(ExpertId expert, const char* part) {
  return fmt::format("language_model.model.layers.{}.mlp.experts.{}.{}_proj", kMoeLayer, expert, part);
}

inline SafetensorsWriter TinyTensors(MatrixFormat format) {
  SafetensorsWriter writer;
  for (ExpertId e = 0; e < kExperts; ++e) {
    writer.AddLinear(ExpertModule(e, "gate"), format, kIntermediate, kHidden, 0.1f);
    writer.AddLinear(ExpertModule(e, "up"), format, kIntermediate, kHidden, 0.1f);
    writer.AddLinear(ExpertModule(e, "down"), format, kHidden, kIntermediate, 0.1f);
  }
  return writer;
}

/// Writes the checkpoint and opens it. The folder must outlive the checkpoint.
inline std::unique_ptr<Checkpoint> OpenCheckpoint(const SafetensorsWriter& writer,
                                                  const TemporaryFolder& folder) {
  writer.Write(folder.path());
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(folder.path());
  NUMOE_CHECK(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

}  // namespace numoe::worker
