// GrammarVocabulary: the tokens of a model as a trie of bytes, laid out for walking it once per mask.
//
// Nodes are in depth-first order, so a subtree is a range of nodes and its tokens are a range of
// `sorted_tokens`. Control tokens are in no node: text must not produce them. End tokens are what a finished
// text may be followed by. Built once per model, immutable, thread-safe, shared by all grammars.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::text {
namespace grammar {
class StringTokens;
}

class GrammarVocabulary {
 public:
  struct Node {
    uint8_t byte = 0;
    uint8_t depth = 0;       // bytes from the root, 1 for its children
    uint8_t characters = 0;  // most characters on a path down from here, at most 255
    bool utf8 = false;    // paths down from here are whole characters, but perhaps for an unfinished last one
    bool others = false;  // bytes beyond ASCII occur below
    int32_t end = 0;      // first node after the subtree
    int32_t first_token = 0;  // tokens ending here: [first_token, (this + 1)->first_token) of sorted_tokens
    std::array<uint64_t, 2> ascii = {0, 0};  // ASCII bytes that occur below
  };

  /// `end_tokens`: the model's end-of-sequence and end-of-turn tokens.
  static std::shared_ptr<const GrammarVocabulary> Build(const Tokenizer& tokenizer,
                                                        absl::Span<const TokenId> end_tokens);
  /// `tokens[id]` is the token's bytes; empty ones never occur in text. Tokens over 255 bytes never occur
  /// either.
  static std::shared_ptr<const GrammarVocabulary> Build(const std::vector<std::string_view>& tokens,
                                                        absl::Span<const TokenId> end_tokens);

  /// nodes()[0] is the root; one more than there are, so that node + 1 can be read.
  absl::Span<const Node> nodes() const { return nodes_; }
  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()) - 1; }
  absl::Span<const TokenId> sorted_tokens() const { return sorted_; }
  absl::Span<const TokenId> end_tokens() const { return end_tokens_; }
  bool IsEnd(TokenId token) const;
  /// Bytes as text; "" of control tokens.
  std::string_view bytes(TokenId token) const;
  /// Ids are below this.
  int size() const { return static_cast<int>(offsets_.size()) - 1; }
  /// 64-bit words of a mask.
  size_t mask_words() const { return (static_cast<size_t>(size()) + 63) / 64; }
  /// The tokens of JSON strings.
  const grammar::StringTokens& strings() const { return *strings_; }
  /// Are all 256 bytes tokens, so that any text at all can be written?
  bool has_every_byte() const { return has_every_byte_; }

 private:
  void BuildTrie();
  void SummariseSubtrees();

  std::vector<Node> nodes_;
  std::vector<TokenId> sorted_;  // by bytes
  std::vector<TokenId> end_tokens_;
  std::vector<char> text_;  // all tokens' bytes, by id
  std::vector<size_t> offsets_;
  bool has_every_byte_ = false;
  std::shared_ptr<const grammar::StringTokens> strings_;
};

}  // namespace numoe::text
