// GrammarVocabulary: the tokens of a model as a trie of bytes, with a layout for one walk per mask.
//
// Nodes are in depth-first order, so a subtree is a range of nodes and its tokens are a range of
// `sorted_tokens`. Control tokens are not in the trie, because text must not produce them. End tokens are
// those that may follow a finished text. Built once for a model, then immutable and thread-safe; shared by
// all grammars.
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
    uint8_t characters = 0;  // the most characters on a path down from here, at most 255
    bool utf8 = false;       // all paths down from here are UTF-8; only the last character may be incomplete
    bool others = false;     // bytes beyond ASCII occur below
    int32_t end = 0;         // first node after the subtree
    int32_t first_token =
        0;  // the tokens that end here are sorted_tokens[first_token, (this + 1)->first_token)
    std::array<uint64_t, 2> ascii = {0, 0};  // ASCII bytes that occur below
  };

  /// `end_tokens` are the model's end-of-sequence and end-of-turn tokens.
  static std::shared_ptr<const GrammarVocabulary> Build(const Tokenizer& tokenizer,
                                                        absl::Span<const TokenId> end_tokens);
  /// `tokens[id]` has the token's bytes. Grammars never allow tokens that are empty or have more than 255
  /// bytes.
  static std::shared_ptr<const GrammarVocabulary> Build(const std::vector<std::string_view>& tokens,
                                                        absl::Span<const TokenId> end_tokens);

  /// nodes()[0] is the root. There is one more element than nodes, so that node + 1 can be read.
  absl::Span<const Node> nodes() const { return nodes_; }
  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()) - 1; }
  absl::Span<const TokenId> sorted_tokens() const { return sorted_; }
  absl::Span<const TokenId> end_tokens() const { return end_tokens_; }
  bool IsEnd(TokenId token) const;
  /// The token's bytes as text; "" for control tokens.
  std::string_view bytes(TokenId token) const;
  /// The number of ids; all ids are smaller.
  int size() const { return static_cast<int>(offsets_.size()) - 1; }
  /// The number of 64-bit words of a mask.
  size_t mask_words() const { return (static_cast<size_t>(size()) + 63) / 64; }
  /// The tables of tokens for JSON strings.
  const grammar::StringTokens& strings() const { return *strings_; }
  /// Whether each of the 256 bytes is a token, so that any text can be generated.
  bool has_every_byte() const { return has_every_byte_; }

 private:
  void BuildTrie();
  void SummariseSubtrees();

  std::vector<Node> nodes_;
  std::vector<TokenId> sorted_;  // by bytes
  std::vector<TokenId> end_tokens_;
  std::vector<char> text_;  // the bytes of all tokens in the order of their ids
  std::vector<size_t> offsets_;
  bool has_every_byte_ = false;
  std::shared_ptr<const grammar::StringTokens> strings_;
};

}  // namespace numoe::text
