// Reads ModelConfig and sampling defaults from a GGUF file's metadata.
//
// It knows the architectures deepseek2 (DeepSeek-V3/R1, Kimi-K2 and K2.5's text model) and qwen3moe, with the
// keys that llama.cpp's converters write. Missing keys get llama.cpp's defaults, except where these are known
// to be wrong: if a file of Kimi-K2 lacks the YaRN betas, both are 1, and if a file of DeepSeek-V3 lacks the
// expert groups, the gate uses 4 groups of 8. Stop tokens are eos, eot and every control token with the
// name of one, because converters name only one of a model's stop tokens. Errors name the file, the key, what
// was found and what was expected.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/weights/gguf.h"
#include "common/weights/model_config.h"

namespace numoe {

/// `path` is used in error messages only.
absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file, const std::string& path);
absl::StatusOr<GenerationDefaults> ReadGgufGenerationDefaults(const GgufFile& file, const std::string& path);

}  // namespace numoe
