// Reads a Hugging Face tokenizer.json with a byte-level BPE model (Qwen3, DeepSeek).
//
// Supported are normalizer (none, NFC, or a sequence), pre_tokenizer (Split by Regex or String with behaviour
// Isolated, Digits, ByteLevel, or a sequence), model BPE with merges in either spelling, decoder ByteLevel,
// and added_tokens. An error names a component or option that is not supported, or a field of another type.
// Source: https://github.com/huggingface/tokenizers.
#pragma once

#include <filesystem>
#include <memory>

#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/tokenizer/tokenizer_config.h"

namespace numoe::text {

/// Reads DIR/tokenizer.json and DIR/tokenizer_config.json; the latter may be absent.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadHfTokenizer(const std::filesystem::path& dir);
/// Reads the text of a tokenizer.json. Errors begin with `source`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHfTokenizer(std::string_view json_text,
                                                           const TokenizerConfig& config,
                                                           const std::string& source);

}  // namespace numoe::text
