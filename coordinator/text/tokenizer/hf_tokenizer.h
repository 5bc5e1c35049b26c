// Hugging Face tokenizer.json with a byte-level BPE model (Qwen3, DeepSeek).
//
// Reads normalizer (none, NFC, or a sequence), pre_tokenizer (Split by Regex or String with behaviour
// Isolated, Digits, ByteLevel, or a sequence), model BPE with merges in either spelling, decoder ByteLevel,
// added_tokens. A component or an option this engine does not compute, or a field of another type, is an
// error naming it. Source: https://github.com/huggingface/tokenizers.
#pragma once

#include <filesystem>
#include <memory>

#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/tokenizer/tokenizer_config.h"

namespace numoe::text {

/// DIR/tokenizer.json with DIR/tokenizer_config.json, which may be absent.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadHfTokenizer(const std::filesystem::path& dir);
/// From a tokenizer.json's text. Errors begin with `source`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHfTokenizer(std::string_view json_text,
                                                           const TokenizerConfig& config,
                                                           const std::string& source);

}  // namespace numoe::text
