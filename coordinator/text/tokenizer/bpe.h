// Byte-pair encoding of a piece of text: merges the adjacent pair with the lowest rank until no pair can be
// merged.
//
// Ties go to the leftmost pair. A piece that is a token is looked up. Other pieces of up to 128 bytes are
// merged by scanning the ranks of all pairs for the lowest, longer ones with a heap in O(n log n), so that a
// million bytes of one letter take a fraction of a second. Pieces of the first two kinds need no allocation.
// Immutable; thread-safe if each thread has its own scratch memory. Sources: Sennrich et al.,
// https://arxiv.org/abs/1508.07909; https://github.com/openai/tiktoken.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "coordinator/text/tokenizer/pair_table.h"
#include "coordinator/text/tokenizer/token_table.h"

namespace numoe::text {

class BytePairEncoder {
 public:
  /// Scratch memory for merging long pieces. It is reused, so that it is allocated only once.
  struct Scratch {
    struct Part {
      TokenId id;
      int32_t rank;  // the rank of merging it with its right neighbour
      int32_t left, right;
    };
    std::vector<Part> parts;
    std::vector<uint64_t> heap;  // the rank and the part in one number
  };

  /// Follows tiktoken's rule: neighbours are merged if their bytes together are a token, and that token's id
  /// is the rank. A piece that is a token becomes that token. REQUIRES: every byte is a token; at most
  /// kVocabularyMax tokens.
  static BytePairEncoder FromRanks(const std::vector<std::string>& tokens);

  /// Follows a list of merges. With `whole_first`, a piece that is a token becomes that token, even if the
  /// merges do not result in it. REQUIRES: every byte and all ids of `merges` are in `vocabulary`; ranks are
  /// below kVocabularyMax.
  static BytePairEncoder FromMerges(const std::vector<std::pair<std::string_view, TokenId>>& vocabulary,
                                    const std::vector<Merge>& merges, bool whole_first);

  /// Appends the tokens of `piece`.
  void Encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& ids) const;

 private:
  BytePairEncoder(const TokenTable& vocabulary, const std::vector<Merge>& merges);

  void EncodeByScan(std::string_view piece, std::vector<TokenId>& ids) const;
  void EncodeByHeap(std::string_view piece, Scratch& scratch, std::vector<TokenId>& ids) const;

  struct Joined {
    int32_t rank;
    TokenId id;
  };

  std::array<TokenId, 256> byte_ids_;
  PairTable pairs_;
  std::vector<Joined>
      byte_pairs_;       // [first byte * 256 + second]: pairs_ of bytes, dense for the caches' sake
  TokenTable whole_{0};  // pieces that are one token
};

}  // namespace numoe::text
