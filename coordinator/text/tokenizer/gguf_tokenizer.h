// Reads the tokeniser in the metadata of a GGUF file.
//
// The keys are tokenizer.ggml.model "gpt2" with .tokens, .token_type and .merges; .pre says how text is
// divided: kimi-k2 (then the ids of ordinary tokens are their ranks, and merges are not needed), qwen2 or
// deepseek-v3. Converters mark every control token as hidden, also those of tools and thinking, which the
// models' own files keep visible. Here these stay visible; they are recognised by their names. Errors name
// the file and the key.
#pragma once

#include <memory>
#include <string>

#include "common/weights/gguf.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::text {

/// `path` is only used in error messages. The result does not refer to `file`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufFile& file, const std::string& path);

}  // namespace numoe::text
