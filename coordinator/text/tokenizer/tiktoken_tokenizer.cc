#include "coordinator/text/tokenizer/tiktoken_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"
#include "coordinator/text/tokenizer/bpe.h"
#include "coordinator/text/tokenizer/pattern.h"
#include "coordinator/text/tokenizer/segment_encoder.h"
#include "coordinator/text/tokenizer/tokenizer_config.h"
#include "coordinator/text/tokenizer/tokenizer_limits.h"

namespace numoe::text {
namespace {

// The number of ids after the ranks that the published code creates, with a name or reserved.
constexpr int kReservedTokens = 256;
// The published code divides text into chunks of kChunkChars characters, and runs of white space or of other
// characters into parts of kRunCharsMax, so that no piece is longer. Both only matter for extreme inputs.
constexpr size_t kChunkChars = 400'000;
constexpr size_t kRunCharsMax = 25'000;
static_assert(kRunCharsMax <= kChunkChars);

class TiktokenTokenizer final : public Tokenizer {
 public:
  // Must be called before SetSpecials. Errors of both begin with `source`.
  absl::Status SetRanks(std::vector<std::string> ranks, const std::string& source) {
    tokens_ = std::move(ranks);
    if (tokens_.size() > limits::kVocabularyMax) {
      return absl::InvalidArgumentError(fmt::format("{}: found {} tokens, expected at most {}", source,
                                                    tokens_.size(), limits::kVocabularyMax));
    }
    TokenTable seen(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty() || tokens_[id].size() > limits::kTokenBytesMax) {
        return absl::InvalidArgumentError(fmt::format("{}: rank {} has {} bytes, expected 1 to {}", source,
                                                      id, tokens_[id].size(), limits::kTokenBytesMax));
      }
      if (!seen.Add(tokens_[id], static_cast<TokenId>(id))) {
        return absl::InvalidArgumentError(fmt::format("{}: the bytes of rank {} occur twice", source, id));
      }
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (seen.Find({&c, 1}) == kNoToken) {
        return absl::InvalidArgumentError(
            fmt::format("{}: byte 0x{:02x} has no rank, expected all 256", source, byte));
      }
    }
    encoder_.emplace(BytePairEncoder::FromRanks(tokens_));
    return absl::OkStatus();
  }

  absl::Status SetSpecials(const TokenizerConfig& config, const std::string& source) {
    ASSIGN_OR_RETURN(pattern_, Pattern::Compile(kKimiPattern));
    role_tokens_ = config.role_tokens;
    add_bos_token_ = config.add_bos_token;
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
    NUMOE_CHECK(!specials_.by_id().empty() && specials_.by_id().begin()->first >= base);
    vocab_size_ = specials_.by_id().rbegin()->first + 1;
    token_text_bytes_max_ = specials_.LongestName();
    for (const std::string& token : tokens_)
      token_text_bytes_max_ = std::max(token_text_bytes_max_, token.size());
    return absl::OkStatus();
  }

  std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const override {
    std::vector<TokenId> ids;
    BytePairEncoder::Scratch scratch;
    CutSpecials(
        segments, specials_, [&](std::string_view text) { EncodeText(text, scratch, ids); },
        [&](TokenId id) { ids.push_back(id); });
    return ids;
  }

  std::string_view TokenBytes(TokenId id) const override {
    if (id >= 0 && static_cast<size_t>(id) < tokens_.size()) return tokens_[id];
    const auto it = specials_.by_id().find(id);
    return it == specials_.by_id().end() ? std::string_view() : it->second;
  }
  bool IsSpecial(TokenId id) const override {
    return static_cast<size_t>(id) >= tokens_.size() && specials_.IsSpecial(id);
  }
  std::optional<TokenId> SpecialId(std::string_view name) const override {
    const auto it = specials_.by_name().find(name);
    if (it == specials_.by_name().end()) return std::nullopt;
    return it->second.id;
  }
  int VocabSize() const override { return vocab_size_; }

 private:
  void EncodeText(std::string_view text, BytePairEncoder::Scratch& scratch, std::vector<TokenId>& ids) const {
    NUMOE_DCHECK(encoder_.has_value());
    const auto encode = [&](std::string_view chunk) {
      pattern_.Split(chunk, [&](std::string_view piece) { encoder_->Encode(piece, scratch, ids); });
    };
    if (text.size() <= kRunCharsMax) return encode(text);  // no chunk or run can be too long
    size_t begin = 0, chars = 0, run = 0;
    bool run_is_space = false;
    for (size_t at = 0; at < text.size(); ++at) {
      if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;  // a continuation byte
      const bool is_space = IsSpace(text.substr(at, 3));
      run = is_space == run_is_space ? run + 1 : 1;
      run_is_space = is_space;
      if ((chars > 0 && chars % kChunkChars == 0) || run > kRunCharsMax) {
        encode(text.substr(begin, at - begin));
        begin = at;
        run = 1;
      }
      ++chars;
    }
    encode(text.substr(begin));
  }

  // Returns Python's str.isspace for the first character of `text`: for ASCII, NEL, NBSP, and the categories
  // Zs, Zl and Zp.
  static bool IsSpace(std::string_view text) {
    NUMOE_DCHECK(!text.empty());
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80)
      return first == ' ' || (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x1f);
    if (first == 0xC2) return text[1] == '\x85' || text[1] == '\xA0';
    if (first < 0xE1 || first > 0xE3) return false;
    return text == "\xE1\x9A\x80" || (text >= "\xE2\x80\x80" && text <= "\xE2\x80\x8A") ||
           text == "\xE2\x80\xA8" || text == "\xE2\x80\xA9" || text == "\xE2\x80\xAF" ||
           text == "\xE2\x81\x9F" || text == "\xE3\x80\x80";
  }

  std::vector<std::string> tokens_;  // [rank]
  std::optional<BytePairEncoder> encoder_;
  SpecialTokens specials_;
  Pattern pattern_;
  int vocab_size_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseRanks(std::string_view text, const std::string& source) {
  std::vector<std::string> ranks;
  size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row = text.substr(at, end - at);
    at = end + 1;
    if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
    if (row.empty()) continue;
    const size_t space = row.find(' ');
    std::string bytes;
    const bool decoded = space != std::string_view::npos &&
                         absl::Base64Unescape(absl::string_view(row.data(), space), &bytes) && !bytes.empty();
    if (!decoded || row.substr(space + 1) != std::to_string(ranks.size())) {
      return absl::InvalidArgumentError(
          fmt::format("{} line {}: found \"{}\", expected base64 bytes, a space and the rank {}", source,
                      line, row.substr(0, 80), ranks.size()));
    }
    ranks.push_back(std::move(bytes));
  }
  return ranks;
}

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
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(ranks_path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(std::vector<std::string> ranks, ParseRanks(text, ranks_path));
  RETURN_IF_ERROR(tokenizer->SetRanks(std::move(ranks), ranks_path));
  if (!std::filesystem::exists(config_path)) {
    return absl::NotFoundError(
        fmt::format("{}: found no tokenizer_config.json, which names the control tokens; copy it from the "
                    "checkpoint, beside tiktoken.model",
                    dir.string()));
  }
  ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(dir));
  RETURN_IF_ERROR(tokenizer->SetSpecials(config, config_path));
  return tokenizer;
}

}  // namespace numoe::text
