// In which weight format each MoE layer's experts are held.
//
// GGUF files mix formats from layer to layer, and down's most of all. Without a wish what is stored is kept
// where a kernel reads it and the slice does not cut its blocks. Pure functions of the checkpoint's headers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/weights/checkpoint.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

/// "model.layers.3.mlp.experts.17.gate_proj" with the model's prefix.
std::string ExpertModuleName(const ModelConfig& config, LayerId layer, ExpertId expert, const char* part);

/// [layers]; those of dense layers mean nothing. `wanted` of all layers; nullopt: as stored. Writes one log
/// line where GGUF blocks are rounded or a slice keeps them from being held as stored. InvalidArgument: no
/// MoE layer.
absl::StatusOr<std::vector<ExpertFormats>> ChooseFormats(const Checkpoint& checkpoint,
                                                         const ModelConfig& config, const SliceSpec& spec,
                                                         std::optional<WeightFormat> wanted);

/// "q4_k" or, where down's is another, "q4_k/int8"; and back. InvalidArgument: an unknown name.
std::string FormatsName(const ExpertFormats& formats);
absl::StatusOr<ExpertFormats> ParseFormats(std::string_view name);
/// "q4_k, int8": every format in use, in the order of their numbers.
std::string NamesOf(const std::vector<ExpertFormats>& formats, const ModelConfig& config);

}  // namespace numoe::worker
