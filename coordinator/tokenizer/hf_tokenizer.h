// Hugging Face tokenizer.json with a byte-level BPE model (Qwen3, DeepSeek).
//
// Reads normalizer (none, NFC, or a sequence), pre_tokenizer (Split by Regex or String with behaviour
// Isolated, Digits, ByteLevel, or a sequence), model BPE with merges in either spelling, decoder ByteLevel,
// added_tokens. A component or an option this engine does not compute, or a field of another type, is an
// error naming it. Source: https://github.com/huggingface/tokenizers.
#pragma once

#include <filesystem>
#include <memory>

#include "coordinator/tokenizer/tokenizer.h"

namespace numoe {

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadHfTokenizer(const std::filesystem::path& dir);

}  // namespace numoe
