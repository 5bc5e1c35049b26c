// Chooses the weight format in which each MoE layer's experts are held in memory.
//
// GGUF files mix formats from layer to layer, above all for the down matrix. Unless a format is requested,
// the stored one is kept if a kernel can read it and the slice does not cut its blocks. Pure functions of the
// checkpoint's headers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/weights/checkpoint.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

/// Returns "model.layers.3.mlp.experts.17.gate_proj", with the model's prefix.
std::string ExpertModuleName(const ModelConfig& config, LayerId layer, ExpertId expert, const char* part);

/// Returns [layers]; those of dense layers have no meaning. `wanted` is the format of all layers; nullopt
/// means as stored. If experts are stored in GGUF blocks, a log line says how they are held. InvalidArgument
/// if the model has no MoE layer.
absl::StatusOr<std::vector<ExpertFormats>> ChooseFormats(const Checkpoint& checkpoint,
                                                         const ModelConfig& config, const SliceSpec& spec,
                                                         std::optional<WeightFormat> wanted);

/// Converts to "q4_k" or, if down has another format, "q4_k/int8", and back. InvalidArgument for an unknown
/// name.
std::string FormatsName(const ExpertFormats& formats);
absl::StatusOr<ExpertFormats> ParseFormats(std::string_view name);
/// Returns "q4_k, int8": every format in use, in the order of their numbers.
std::string NamesOf(const std::vector<ExpertFormats>& formats, const ModelConfig& config);

}  // namespace numoe::worker
