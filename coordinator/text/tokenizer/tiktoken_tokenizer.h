// Kimi's tokeniser: a vocabulary of ranks (id = rank), followed by control tokens.
//
// A piece that is a token becomes that token; otherwise its bytes are merged by rank. Ids above the ranks
// without a name are "<|reserved_token_N|>". Source: the published tokenization_kimi.py and
// https://github.com/openai/tiktoken.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/tokenizer/tokenizer_config.h"

namespace numoe::text {

/// Reads DIR/tiktoken.model and DIR/tokenizer_config.json.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktoken(const std::filesystem::path& dir);
/// Returns the bytes of the ordinary tokens by rank, from the text of a tiktoken.model. Errors begin with
/// `source`.
absl::StatusOr<std::vector<std::string>> ParseRanks(std::string_view text, const std::string& source);
/// Makes a tokeniser from a vocabulary of another file; `ranks` has the bytes of the ordinary tokens in
/// order. Errors begin with `source`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTiktoken(std::vector<std::string> ranks,
                                                        const TokenizerConfig& config,
                                                        const std::string& source);

}  // namespace numoe::text
