#include "coordinator/text/tokenizer/tokenizer_config.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"

namespace numoe::text {

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& dir) {
  const std::string path = (dir / "tokenizer_config.json").string();
  if (!std::filesystem::exists(path)) return TokenizerConfig();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  return ParseTokenizerConfig(text, path);
}

absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view json_text, const std::string& path) {
  TokenizerConfig config;
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseStrictJson(json_text, path));
  if (!root.is_object()) return absl::InvalidArgumentError(fmt::format("{}: expected a JSON object", path));
  for (const char* role : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    const auto it = root.find(role);
    if (it == root.end()) continue;
    // The value is a string, or an AddedToken object with "content".
    const nlohmann::json& value = it->is_object() && it->contains("content") ? (*it)["content"] : *it;
    if (value.is_string()) config.role_tokens.emplace_back(role, value.get<std::string>());
  }
  if (const auto adds = root.find("add_bos_token"); adds != root.end() && !adds->is_null()) {
    if (!adds->is_boolean())
      return absl::InvalidArgumentError(fmt::format("{}: add_bos_token: expected true or false", path));
    config.add_bos_token = adds->get<bool>();
  }
  const auto added = root.find("added_tokens_decoder");
  if (added == root.end()) return config;
  if (!added->is_object())
    return absl::InvalidArgumentError(fmt::format("{}: added_tokens_decoder: expected an object", path));
  for (const auto& [key, entry] : added->items()) {
    const bool numeric =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!numeric || !entry.is_object() || !entry.contains("content") || !entry["content"].is_string()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: added_tokens_decoder[\"{}\"]: expected an id and an object with content", path, key));
    }
    const bool special =
        entry.contains("special") && entry["special"].is_boolean() && entry["special"].get<bool>();
    config.added_tokens.emplace_back(entry["content"].get<std::string>(),
                                     SpecialToken{std::stoi(key), special});
  }
  return config;
}

}  // namespace numoe::text
