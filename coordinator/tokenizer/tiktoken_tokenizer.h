// Kimi's tokeniser: ranks from tiktoken.model (id = rank), control tokens from tokenizer_config.json.
//
// A piece that is itself a token is that token; otherwise its bytes are merged by rank. Unnamed ids above the
// ranks are
// "<|reserved_token_N|>". Source: the published tokenization_kimi.py and https://github.com/openai/tiktoken.
#pragma once

#include <filesystem>
#include <memory>

#include "coordinator/tokenizer/tokenizer.h"

namespace numoe {

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktoken(const std::filesystem::path& dir);

}  // namespace numoe
