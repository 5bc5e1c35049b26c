// LiteralChoice: one of a few given texts, as token masks, with nothing compiled.
//
// For texts that differ from request to request, such as the numbered heads of tool calls. A mask is one walk
// down the vocabulary's trie along the texts that are still possible, so it has every token that a text can
// go on with, however it is cut. What may come after a complete text is for the caller to say. The vocabulary
// must outlive it. One thread.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/text/grammar/vocabulary.h"

namespace numoe::text {

class LiteralChoice {
 public:
  /// Texts may be empty, begin alike or be the same.
  LiteralChoice(const GrammarVocabulary& vocabulary, std::vector<std::string> texts);

  /// Sets the bits of the tokens that may come next.
  void AddMask(absl::Span<uint64_t> mask) const;
  /// Goes on by a token. False, and nothing changes, if AddMask does not have it.
  bool Accept(TokenId token);
  /// The texts that are complete, by their places in the constructor's list: none, or all that are the same.
  std::vector<size_t> Complete() const;

 private:
  using Places = absl::Span<const size_t>;
  void Walk(int32_t node, Places places, size_t at, absl::Span<uint64_t> mask) const;

  const GrammarVocabulary* vocabulary_;
  std::vector<std::string> texts_;
  std::vector<size_t> possible_;  // places of texts that begin with what was said, in the order of the texts
  size_t said_ = 0;               // bytes
};

}  // namespace numoe::text
