// Translates text into token ids and back, exactly as in the model's training, with Kimi's tiktoken.model, a
// Hugging Face tokenizer.json or the metadata of a GGUF file.
//
// Encoding separates control tokens where the caller allows that, divides the other text by the model's
// pre-tokenisation pattern and merges bytes by rank. Message content must never become a control token, so
// text comes in segments that say whether they are trusted; patterns are applied to the concatenation, as if
// the segments were one string. Decoding is by bytes; a stream holds back at most 3 bytes of an incomplete
// UTF-8 sequence. Thread-safe after Load.
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
  /// Reads MODEL/tiktoken.model with tokenizer_config.json, MODEL/tokenizer.json, or the GGUF model at
  /// `model`. Errors name the file and the line, field or key.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model);
  virtual ~Tokenizer() = default;

  /// Encodes the concatenated segments. Control tokens are recognised only in trusted segments. Invalid UTF-8
  /// is first replaced by U+FFFD.
  virtual std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const = 0;
  std::vector<TokenId> Encode(std::string_view text, Specials specials) const;
  /// The token that begins every text; nullopt unless the model's files ask for it (add_bos_token). For
  /// conversations the chat template writes it.
  std::optional<TokenId> FirstToken() const;

  /// Returns the raw bytes of an ordinary token, the name of a control token, or "" for an id that does not
  /// exist.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  /// Whether the token is marked "special", so that skip_special drops it.
  virtual bool IsSpecial(TokenId id) const = 0;
  virtual std::optional<TokenId> SpecialId(std::string_view name) const = 0;
  /// The number of ids; all ids are smaller.
  virtual int VocabSize() const = 0;
  /// tokenizer_config.json's tokens by role ("bos_token", ...), for templates.
  const std::vector<std::pair<std::string, std::string>>& role_tokens() const { return role_tokens_; }

  /// Returns a lower bound of the number of tokens of any text of `text_bytes` bytes, which is their number
  /// if each token were the longest of the vocabulary.
  size_t FewestTokens(size_t text_bytes) const;

  std::string Decode(absl::Span<const TokenId> ids, bool skip_special) const;

 protected:
  std::vector<std::pair<std::string, std::string>> role_tokens_;
  bool add_bos_token_ = false;
  size_t token_text_bytes_max_ =
      0;  // the most bytes of text, before normalisation, that a token can represent
};

/// Decodes a sequence token by token. Belongs to one thread.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// Takes the next token and returns the text that is complete now. Each maximal invalid part is replaced by
  /// U+FFFD.
  std::string Push(TokenId id);
  /// Returns the rest at the end of the sequence: U+FFFD if a character is incomplete, otherwise "".
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string pending_;  // an incomplete UTF-8 sequence, at most 3 bytes
};

}  // namespace numoe::text
