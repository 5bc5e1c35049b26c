// tokenizer_config.json: control tokens with their flags, and which token plays which role.
//
// Used by both tokeniser kinds. Errors name the file and the entry.
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
  bool add_bos_token = false;  // texts begin with bos_token, except conversations: their template prints it
};

/// From the file's text. Errors begin with `source`.
absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view json_text, const std::string& source);
/// Empty when the file is absent.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& dir);

}  // namespace numoe::text
