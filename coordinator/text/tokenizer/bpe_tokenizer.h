// A byte-level BPE tokeniser whose merges are a list (Qwen3, DeepSeek), whatever file it was read from.
//
// The readers (hf_tokenizer.h, gguf_tokenizer.h) fill a BpeModel; all its strings are bytes. Source:
// https://github.com/huggingface/tokenizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/text/tokenizer/pair_table.h"
#include "coordinator/text/tokenizer/pattern.h"
#include "coordinator/text/tokenizer/special_tokens.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::text {

struct BpeModel {
  bool nfc = false;                                // normalise to NFC first
  bool ignore_merges = false;                      // a piece that is itself a token is that token
  std::vector<Pattern> patterns;                   // each cuts the pieces of the one before it
  std::vector<std::string> tokens;                 // [id], "" where there is none
  std::unordered_map<std::string, TokenId> vocab;  // ordinary tokens
  std::vector<Merge> merges;
  SpecialTokens specials;
  std::vector<std::pair<std::string, std::string>> role_tokens;
  bool add_bos_token = false;

  /// false: the id has another token.
  bool StoreToken(TokenId id, std::string bytes);
  /// The next merge in rank. false: what it makes is no token, or there are too many.
  bool AddMerge(std::string_view left, std::string_view right);
  /// The lowest byte that is no token, or -1: every byte must be one.
  int MissingByte() const;
};

/// REQUIRES: model.MissingByte() < 0.
std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeModel model);

}  // namespace numoe::text
