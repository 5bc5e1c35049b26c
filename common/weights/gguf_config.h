// ModelConfig and sampling defaults from a GGUF file's metadata.
//
// Architectures deepseek2 (DeepSeek-V3/R1, Kimi-K2 and K2.5's text model) and qwen3moe, with the keys that
// llama.cpp's converters write. What files leave out is taken as their readers take it, but where that is
// known to be wrong: files of Kimi-K2 without YaRN betas have 1 and 1, files of DeepSeek-V3 without expert
// groups have 4 of 8. Stop tokens are eos and eot, and every control token by the name of one, because
// converters name only one of a model's several. Errors name file, key, what was found and what was expected.
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
