// Byte-pair encoding of one piece of text: joins the adjacent pair with the lowest rank until none is left.
//
// Ties go to the leftmost pair. A piece that is one token is looked up; up to 128 bytes are joined by
// scanning the ranks of all pairs for the lowest, longer ones with a heap: O(n log n), so that a million
// bytes of one letter cost a fraction of a second. Nothing is allocated for a piece of the first two kinds.
// Immutable; thread-safe with a scratch for each thread. Sources: Sennrich et al.,
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
  /// What long pieces are joined in. Reused, it is allocated once.
  struct Scratch {
    struct Part {
      TokenId id;
      int32_t rank;  // of joining it with its right neighbour
      int32_t left, right;
    };
    std::vector<Part> parts;
    std::vector<uint64_t> heap;  // rank and part
  };

  /// tiktoken's rule: neighbours join where their bytes together are a token, whose id is the rank; a piece
  /// that is a token is that token. REQUIRES: every byte is a token, at most kVocabularyMax tokens.
  static BytePairEncoder FromRanks(const std::vector<std::string>& tokens);

  /// A list of merges. `whole_first`: a piece that is a token is that token, even if no merges lead there.
  /// REQUIRES: every byte is in `vocabulary`, the ids of `merges` are, too, ranks are below kVocabularyMax.
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
