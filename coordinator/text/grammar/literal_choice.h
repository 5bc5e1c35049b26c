// LiteralChoice: token masks for a choice of a few given texts, without compiling a grammar.
//
// For texts that differ from request to request, such as the numbered heads of tool calls. A mask is a walk
// down the vocabulary's trie along the texts that are still possible, so it has every token with which a text
// can continue, however the text is divided into tokens. The caller decides what may come after a complete
// text. The vocabulary must outlive this object, which belongs to one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/text/grammar/vocabulary.h"

namespace numoe::text {

class LiteralChoice {
 public:
  /// Texts may be empty, have the same beginning or be equal.
  LiteralChoice(const GrammarVocabulary& vocabulary, std::vector<std::string> texts);

  /// Sets the bits of the tokens that may come next.
  void AddMask(absl::Span<uint64_t> mask) const;
  /// Advances by a token. If the mask does not allow the token, returns false and changes nothing.
  bool Accept(TokenId token);
  /// Returns the indices, in the constructor's list, of the texts that are complete: none, or all equal ones.
  std::vector<size_t> Complete() const;

 private:
  using Places = absl::Span<const size_t>;
  void Walk(int32_t node, Places places, size_t at, absl::Span<uint64_t> mask) const;

  const GrammarVocabulary* vocabulary_;
  std::vector<std::string> texts_;
  std::vector<size_t>
      possible_;  // indices of the texts that begin with the accepted bytes, in the texts' order
  size_t accepted_bytes_ = 0;
};

}  // namespace numoe::text
