// Text to token ids and back, exactly as the model was trained: Kimi's tiktoken.model, Hugging Face
// tokenizer.json or a GGUF file's metadata.
//
// Encoding splits out control tokens where the caller allows it, cuts the rest by the model's
// pre-tokenisation pattern and merges bytes by rank. Message content must never become a control token, so
// text comes in segments that say whether they are trusted; patterns run over the concatenation, as if the
// segments were one string. Decoding is by bytes; a stream holds back at most 3 bytes of an unfinished UTF-8
// sequence. Thread-safe after Load.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/text_segment.h"

namespace numoe::text {

enum class Specials : uint8_t { kAsText, kParse };

class Tokenizer {
 public:
  /// MODEL/tiktoken.model with tokenizer_config.json, MODEL/tokenizer.json, or the GGUF model that `model`
  /// means. Errors name file and line, field or key.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model);
  virtual ~Tokenizer() = default;

  /// Control tokens are recognised in trusted segments only. Invalid UTF-8 becomes U+FFFD first.
  virtual std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const = 0;
  std::vector<TokenId> Encode(std::string_view text, Specials specials) const;
  /// The token that begins every text where the model's files say so (add_bos_token). Templates of
  /// conversations print it by themselves.
  std::optional<TokenId> FirstToken() const;

  /// Raw bytes of an ordinary token, the name of a control token, "" of an id that does not exist.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  /// Marked "special": dropped by skip_special.
  virtual bool IsSpecial(TokenId id) const = 0;
  virtual std::optional<TokenId> SpecialId(std::string_view name) const = 0;
  /// Ids are below this.
  virtual int VocabSize() const = 0;
  /// tokenizer_config.json's tokens by role ("bos_token", ...), for templates.
  const std::vector<std::pair<std::string, std::string>>& role_tokens() const { return role_tokens_; }

  /// A lower bound of the number of tokens of any text of `text_bytes` bytes: their number if each were the
  /// vocabulary's longest.
  size_t FewestTokens(size_t text_bytes) const;

  std::string Decode(absl::Span<const TokenId> ids, bool skip_special) const;

 protected:
  std::vector<std::pair<std::string, std::string>> role_tokens_;
  bool add_bos_token_ = false;
  size_t token_text_bytes_max_ = 0;  // of the text that one token stands for, before it is normalised
};

/// Decodes one sequence as its tokens come. One thread.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// The text that is complete after `id`; invalid bytes come out as U+FFFD, one for each maximal invalid
  /// part.
  std::string Push(TokenId id);
  /// What is left: U+FFFD if a sequence stayed unfinished.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string pending_;  // an unfinished UTF-8 sequence, at most 3 bytes
};

}  // namespace numoe::text
