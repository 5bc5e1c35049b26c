// A byte-level BPE tokeniser with a list of merges (Qwen3, DeepSeek), independent of the file format.
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
  std::vector<Pattern> patterns;                   // each divides the pieces of the previous one
  std::vector<std::string> tokens;                 // [id], "" if the id has no ordinary token
  std::unordered_map<std::string, TokenId> vocab;  // ordinary tokens
  std::vector<Merge> merges;
  SpecialTokens specials;
  std::vector<std::pair<std::string, std::string>> role_tokens;
  bool add_bos_token = false;

  /// Stores a token. Returns false if the id already has another token.
  bool StoreToken(TokenId id, std::string bytes);
  /// Adds the merge with the next rank. Returns false if its result is not a token, or if there are too many
  /// merges.
  bool AddMerge(std::string_view left, std::string_view right);
  /// Returns the lowest byte that is not a token; -1 if every byte is one, as is required.
  int MissingByte() const;
};

/// REQUIRES: model.MissingByte() < 0.
std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeModel model);

}  // namespace numoe::text
