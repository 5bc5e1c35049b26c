// Control tokens: their names, ids and flags, and where they occur in a text.
//
// Matching is leftmost, longest at one place. Immutable after Add; thread-safe.
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
  /// First occurrence at or after `from`.
  std::optional<Match> Find(std::string_view text, size_t from) const;

  const std::map<std::string, SpecialToken, std::less<>>& by_name() const { return by_name_; }
  const std::map<TokenId, std::string>& by_id() const { return by_id_; }
  /// Bytes of the longest name; 0: there is none.
  size_t LongestName() const;
  /// The token of this id is marked special.
  bool IsSpecial(TokenId id) const;

 private:
  /// Length of the longest name that `text` begins with; 0: none.
  size_t LongestAt(std::string_view text) const;

  std::map<std::string, SpecialToken, std::less<>> by_name_;
  std::map<TokenId, std::string> by_id_;
  std::vector<std::string> names_;       // sorted
  std::array<bool, 256> begins_name_{};  // [byte]
};

}  // namespace numoe::text
