#include "coordinator/tokenizer/tiktoken_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "absl/strings/escaping.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/weights/mapped_file.h"
#include "coordinator/tokenizer/bpe.h"
#include "coordinator/tokenizer/pattern.h"
#include "coordinator/tokenizer/segment_encoder.h"
#include "coordinator/tokenizer/tokenizer_config.h"
#include "coordinator/tokenizer/utf8.h"

namespace numoe {
namespace {

// Ids behind the ranks that the published code creates, named or reserved.
constexpr int kReservedTokens = 256;
// The published code cuts text into chunks of this many characters, and runs of white space or of anything
// else into this many, so that no piece is longer; both only matter for extreme inputs.
constexpr size_t kChunkChars = 400'000;
constexpr size_t kRunCharsMax = 25'000;

class TiktokenTokenizer final : public Tokenizer {
 public:
  // First; errors begin with `source`, as do SetSpecials'.
  absl::Status SetRanks(std::vector<std::string> ranks, const std::string& source) {
    tokens_ = std::move(ranks);
    ranks_.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!ranks_.emplace(tokens_[id], static_cast<TokenId>(id)).second) {
        return absl::InvalidArgumentError(fmt::format("{}: the bytes of rank {} occur twice", source, id));
      }
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (ranks_.count(std::string_view(&c, 1)) == 0) {
        return absl::InvalidArgumentError(
            fmt::format("{}: byte 0x{:02x} has no rank, expected all 256", source, byte));
      }
    }
    return absl::OkStatus();
  }

  absl::Status SetSpecials(const TokenizerConfig& config, const std::string& source) {
    ASSIGN_OR_RETURN(pattern_, Pattern::Compile(kKimiPattern));
    role_tokens_ = config.role_tokens;
    const auto base = static_cast<TokenId>(tokens_.size());
    for (const auto& [name, token] : config.added_tokens) {
      if (token.id < base || token.id >= base + (1 << 20)) {
        return absl::InvalidArgumentError(fmt::format(
            "{}: control token {} has id {}, expected one above the {} ranks", source, name, token.id, base));
      }
      specials_.Add(name, token);
    }
    for (TokenId id = base; id < base + kReservedTokens; ++id) {
      if (specials_.by_id().count(id) == 0)
        specials_.Add(fmt::format("<|reserved_token_{}|>", id), {id, true});
    }
    vocab_size_ = specials_.by_id().rbegin()->first + 1;
    return absl::OkStatus();
  }

  std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const override {
    std::vector<TokenId> ids;
    CutSpecials(
        segments, specials_, [&](std::string_view text) { EncodeText(text, ids); },
        [&](TokenId id) { ids.push_back(id); });
    return ids;
  }

  std::string_view TokenBytes(TokenId id) const override {
    if (id >= 0 && static_cast<size_t>(id) < tokens_.size()) return tokens_[id];
    const auto it = specials_.by_id().find(id);
    return it == specials_.by_id().end() ? std::string_view() : it->second;
  }
  bool IsSpecial(TokenId id) const override {
    const auto it = specials_.by_id().find(id);
    return it != specials_.by_id().end() && specials_.by_name().find(it->second)->second.special;
  }
  std::optional<TokenId> SpecialId(std::string_view name) const override {
    const auto it = specials_.by_name().find(name);
    if (it == specials_.by_name().end()) return std::nullopt;
    return it->second.id;
  }
  int VocabSize() const override { return vocab_size_; }

 private:
  void EncodeText(std::string_view text, std::vector<TokenId>& ids) const {
    if (text.size() <= kRunCharsMax) {  // no chunk or run can be too long
      pattern_.Split(text, [&](std::string_view piece) { EncodePiece(piece, ids); });
      return;
    }
    size_t begin = 0, at = 0, chars = 0, run = 0;
    bool run_is_space = false;
    const auto cut = [&] {
      pattern_.Split(text.substr(begin, at - begin),
                     [&](std::string_view piece) { EncodePiece(piece, ids); });
      begin = at;
    };
    while (at < text.size()) {
      const int step = Utf8Step(text.substr(at));
      const bool is_space = IsSpace(text.substr(at, step));
      run = is_space == run_is_space ? run + 1 : 1;
      run_is_space = is_space;
      if (chars > 0 && chars % kChunkChars == 0) {
        cut();
        run = 1;
      } else if (run > kRunCharsMax) {
        cut();
        run = 1;
      }
      at += static_cast<size_t>(step);
      ++chars;
    }
    cut();
  }

  // Python's str.isspace for the characters that occur: ASCII, NEL, NBSP, and the Zs/Zl/Zp blocks.
  static bool IsSpace(std::string_view c) {
    if (c.size() == 1) return c[0] == ' ' || (c[0] >= 0x09 && c[0] <= 0x0d) || (c[0] >= 0x1c && c[0] <= 0x1f);
    if (c.size() == 2) return c == "\xC2\x85" || c == "\xC2\xA0";
    return c == "\xE1\x9A\x80" || (c >= "\xE2\x80\x80" && c <= "\xE2\x80\x8A") || c == "\xE2\x80\xA8" ||
           c == "\xE2\x80\xA9" || c == "\xE2\x80\xAF" || c == "\xE2\x81\x9F" || c == "\xE3\x80\x80";
  }

  void EncodePiece(std::string_view piece, std::vector<TokenId>& ids) const {
    if (const auto whole = ranks_.find(piece); whole != ranks_.end()) {
      ids.push_back(whole->second);
      return;
    }
    const auto rank = [&](std::string_view left, std::string_view right) {
      const auto it = ranks_.find(std::string_view(left.data(), left.size() + right.size()));
      return it == ranks_.end() ? kNoMerge : it->second;
    };
    size_t at = 0;
    for (const int length : MergeBytes(piece, std::vector<int>(piece.size(), 1), rank)) {
      ids.push_back(ranks_.find(piece.substr(at, length))->second);
      at += length;
    }
  }

  std::vector<std::string> tokens_;                      // [rank]
  std::unordered_map<std::string_view, TokenId> ranks_;  // views into tokens_
  SpecialTokens specials_;
  Pattern pattern_;
  int vocab_size_ = 0;
};

absl::StatusOr<std::vector<std::string>> ReadRanks(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  std::vector<std::string> ranks;
  size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
    if (row.empty()) continue;
    const size_t space = row.find(' ');
    std::string bytes;
    const bool decoded = space != std::string_view::npos &&
                         absl::Base64Unescape(absl::string_view(row.data(), space), &bytes) && !bytes.empty();
    if (!decoded || row.substr(space + 1) != std::to_string(ranks.size())) {
      return absl::InvalidArgumentError(
          fmt::format("{} line {}: found \"{}\", expected base64 bytes, a space and the rank {}", path, line,
                      row.substr(0, 80), ranks.size()));
    }
    ranks.push_back(std::move(bytes));
  }
  return ranks;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTiktoken(std::vector<std::string> ranks,
                                                        const TokenizerConfig& config,
                                                        const std::string& source) {
  auto tokenizer = std::make_unique<TiktokenTokenizer>();
  RETURN_IF_ERROR(tokenizer->SetRanks(std::move(ranks), source));
  RETURN_IF_ERROR(tokenizer->SetSpecials(config, source));
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktoken(const std::filesystem::path& dir) {
  const std::string ranks_path = (dir / "tiktoken.model").string();
  const std::string config_path = (dir / "tokenizer_config.json").string();
  auto tokenizer = std::make_unique<TiktokenTokenizer>();
  ASSIGN_OR_RETURN(std::vector<std::string> ranks, ReadRanks(ranks_path));
  RETURN_IF_ERROR(tokenizer->SetRanks(std::move(ranks), ranks_path));
  if (!std::filesystem::exists(config_path)) {
    return absl::NotFoundError(fmt::format(
        "{}: no tokenizer_config.json, expected beside tiktoken.model: it names the control tokens",
        dir.string()));
  }
  ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(dir));
  RETURN_IF_ERROR(tokenizer->SetSpecials(config, config_path));
  return tokenizer;
}

}  // namespace numoe
