// The tokeniser in a GGUF file's metadata.
//
// Reads tokenizer.ggml.model "gpt2" with .tokens, .token_type and .merges; .pre says how text is cut: kimi-k2
// (then the ids of ordinary tokens are their ranks, and merges are not needed), qwen2 or deepseek-v3.
// Converters mark every control token as one to be hidden, those of tools and thinking too, which models'
// own files keep visible: here they stay visible, by name. Errors name the file and the key.
#pragma once

#include <memory>
#include <string>

#include "common/weights/gguf.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::text {

/// `path` is used in error messages only. Keeps nothing of `file`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufFile& file, const std::string& path);

}  // namespace numoe::text
