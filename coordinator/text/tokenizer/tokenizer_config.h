// Reads tokenizer_config.json: the control tokens with their flags, and the tokens with roles such as
// "bos_token".
//
// Both kinds of tokenisers use it. Errors name the file and the entry.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/text/tokenizer/special_tokens.h"

namespace numoe::text {

struct TokenizerConfig {
  std::vector<std::pair<std::string, SpecialToken>> added_tokens;
  std::vector<std::pair<std::string, std::string>> role_tokens;  // ("bos_token", "[BOS]"), ...
  bool add_bos_token = false;  // texts begin with bos_token; for conversations the chat template writes it
};

/// Reads the file's text. Errors begin with `source`.
absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view json_text, const std::string& source);
/// Reads the file in `dir`. The result is empty if the file is absent.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& dir);

}  // namespace numoe::text
