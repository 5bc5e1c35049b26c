// ByteTokenizer: a vocabulary for tests in which every byte is a token, followed by named control tokens.
//
// Text is divided into single bytes, so marks that are written as text and characters of several bytes always
// arrive in pieces. The test gives the names of control tokens; those with a leading '!' are special (left
// out of decoded text). Further pieces of text may be tokens as well: they are decoded, but encoding never
// makes them. Immutable; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "coordinator/text/tokenizer/special_tokens.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe {

class ByteTokenizer final : public text::Tokenizer {
 public:
  /// Ids 0..255 are the bytes, followed by the control tokens in their order, then the pieces. `first` is the
  /// control token that every text begins with, "" if there is none.
  explicit ByteTokenizer(const std::vector<std::string>& control, const std::vector<std::string>& pieces = {},
                         const std::string& first = "");

  std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool IsSpecial(TokenId id) const override;
  std::optional<TokenId> SpecialId(std::string_view name) const override;
  int VocabSize() const override { return static_cast<int>(tokens_.size()); }

 private:
  std::vector<std::string> tokens_;
  text::SpecialTokens control_;
};

/// The control tokens of Kimi, DeepSeek and Qwen as their published vocabularies name them, with their end of
/// turn ("<|im_end|>", "<｜end▁of▁sentence｜>") special.
std::vector<std::string> KimiControlTokens();
std::vector<std::string> DeepSeekControlTokens();
std::vector<std::string> QwenControlTokens();

}  // namespace numoe
