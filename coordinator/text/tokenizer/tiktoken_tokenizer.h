// Kimi's tokeniser: a vocabulary of ranks (id = rank), and control tokens behind them.
//
// A piece that is itself a token is that token; otherwise its bytes are merged by rank. Unnamed ids above the
// ranks are "<|reserved_token_N|>". Source: the published tokenization_kimi.py and
// https://github.com/openai/tiktoken.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/tokenizer/tokenizer_config.h"

namespace numoe::text {

/// DIR/tiktoken.model with DIR/tokenizer_config.json.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktoken(const std::filesystem::path& dir);
/// The ordinary tokens' bytes by rank, from the text of a tiktoken.model. Errors begin with `source`.
absl::StatusOr<std::vector<std::string>> ParseRanks(std::string_view text, const std::string& source);
/// From a vocabulary read elsewhere: `ranks` are the bytes of the ordinary tokens in order. Errors begin with
/// `source`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTiktoken(std::vector<std::string> ranks,
                                                        const TokenizerConfig& config,
                                                        const std::string& source);

}  // namespace numoe::text
