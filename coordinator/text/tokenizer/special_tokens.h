// Control tokens: their names, ids and flags, and a search for them in a text.
//
// The search finds the leftmost token, and at one place the longest. Immutable after Add; thread-safe.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace numoe::text {

struct SpecialToken {
  TokenId id = 0;
  bool special = true;  // dropped by skip_special
};

class SpecialTokens {
 public:
  void Add(const std::string& name, SpecialToken token);

  struct Match {
    size_t begin = 0;
    size_t length = 0;
    TokenId id = 0;
  };
  /// Returns the first occurrence at or after `from`.
  std::optional<Match> Find(std::string_view text, size_t from) const;

  const std::map<std::string, SpecialToken, std::less<>>& by_name() const { return by_name_; }
  const std::map<TokenId, std::string>& by_id() const { return by_id_; }
  /// Returns the bytes of the longest name; 0 if there are no names.
  size_t LongestName() const;
  /// Whether the token with this id is marked special.
  bool IsSpecial(TokenId id) const;

 private:
  /// Returns the length of the longest name with which `text` begins; 0 if there is none.
  size_t LongestAt(std::string_view text) const;

  std::map<std::string, SpecialToken, std::less<>> by_name_;
  std::map<TokenId, std::string> by_id_;
  std::vector<std::string> names_;       // sorted
  std::array<bool, 256> begins_name_{};  // [byte]
};

}  // namespace numoe::text
