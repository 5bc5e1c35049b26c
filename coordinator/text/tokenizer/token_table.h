// TokenTable: which token some bytes are. A flat hash table that answers from one cache line.
//
// Open addressing with linear probing, at most two thirds full. Eight bytes or less are compared as the key
// itself; longer ones by hash and then by their bytes. Filled once, then immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace numoe::text {

inline constexpr TokenId kNoToken = -1;

class TokenTable {
 public:
  /// For up to `tokens` tokens.
  explicit TokenTable(size_t tokens);

  /// false: these bytes are a token already, which stays. REQUIRES: `bytes` is not empty, and the table has
  /// room.
  bool Add(std::string_view bytes, TokenId id);
  TokenId Find(std::string_view bytes) const;
  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = 0;     // the bytes themselves, or the hash of more than eight
    uint32_t length = 0;  // 0: empty
    TokenId id = kNoToken;
  };
  static uint64_t Key(std::string_view bytes);
  /// The slot that holds `bytes`, or the empty one where they belong.
  size_t Place(std::string_view bytes) const;

  std::vector<Slot> slots_;
  std::vector<size_t> begins_;  // [slot] of the bytes in text_, where there are more than eight
  std::string text_;
  size_t mask_;
  size_t length_max_ = 0;
  size_t size_ = 0;
};

}  // namespace numoe::text
