// TokenTable: finds the token with given bytes. A flat hash table that usually reads only one cache line.
//
// Open addressing with linear probing, at most two thirds full. Up to eight bytes are themselves the key;
// longer tokens are compared by a hash and then by their bytes. Filled once, then immutable; thread-safe.
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
  /// The table has room for `tokens` tokens.
  explicit TokenTable(size_t tokens);

  /// Adds a token. If these bytes already are a token, returns false and keeps that one. REQUIRES: `bytes` is
  /// not empty, and the table has room.
  bool Add(std::string_view bytes, TokenId id);
  TokenId Find(std::string_view bytes) const;
  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = 0;     // the bytes themselves, or the hash of more than eight bytes
    uint32_t length = 0;  // 0 if the slot is empty
    TokenId id = kNoToken;
  };
  static uint64_t Key(std::string_view bytes);
  /// Returns the slot that has `bytes`, or the empty slot to which they would be added.
  size_t Place(std::string_view bytes) const;

  std::vector<Slot> slots_;
  std::vector<size_t> begins_;  // [slot] where the bytes begin in text_, if there are more than eight
  std::string text_;
  size_t mask_;
  size_t length_max_ = 0;
  size_t size_ = 0;
};

}  // namespace numoe::text
