// Translates the Hugging Face names of tensors to GGUF's names.
//
// One table serves the architectures deepseek2 and qwen3moe (llama.cpp, gguf-py/gguf/constants.py). kv_b_proj
// may be stored in two halves instead. These have no Hugging Face name and are called k_b_proj (each head's
// matrix transposed: [heads * latent, nope]) and v_b_proj ([heads * v_head, latent]). Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace numoe {

/// Returns "blk.3.attn_output.weight" for "model.layers.3.self_attn.o_proj.weight"; nullopt if the name has
/// no tensor of its own (a routed expert) or no name in GGUF.
std::optional<std::string> GgufName(std::string_view tensor);

/// A matrix of a routed expert: "model.layers.3.mlp.experts.17.gate_proj".
struct ExpertModule {
  int64_t layer = 0;
  int64_t expert = 0;
  std::string part;  // gate | up | down
};
std::optional<ExpertModule> ParseExpertModule(std::string_view module);

}  // namespace numoe
