#include "coordinator/text/tokenizer/special_tokens.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::text {

void SpecialTokens::Add(const std::string& name, SpecialToken token) {
  if (name.empty()) return;
  NUMOE_CHECK_GE(token.id, 0);
  if (by_name_.insert_or_assign(name, token).second)
    names_.insert(std::upper_bound(names_.begin(), names_.end(), name), name);
  by_id_[token.id] = name;
  begins_name_[static_cast<unsigned char>(name[0])] = true;
  NUMOE_DCHECK_EQ(names_.size(), by_name_.size());
}

std::optional<SpecialTokens::Match> SpecialTokens::Find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_name_[static_cast<unsigned char>(text[at])]) continue;
    const size_t length = LongestAt(text.substr(at));
    if (length > 0) return Match{at, length, by_name_.find(text.substr(at, length))->second.id};
  }
  return std::nullopt;
}

size_t SpecialTokens::LongestName() const {
  size_t longest = 0;
  for (const std::string& name : names_) longest = std::max(longest, name.size());
  return longest;
}

// Narrows the range of sorted names, character by character, to those that continue like the text.
size_t SpecialTokens::LongestAt(std::string_view text) const {
  size_t longest = 0;
  auto begin = names_.begin(), end = names_.end();
  for (size_t depth = 0; depth < text.size() && begin != end; ++depth) {
    const auto c = static_cast<unsigned char>(text[depth]);
    const auto at_depth = [&](const std::string& name) { return static_cast<unsigned char>(name[depth]); };
    begin = std::partition_point(begin, end, [&](const std::string& name) { return at_depth(name) < c; });
    end = std::partition_point(begin, end, [&](const std::string& name) { return at_depth(name) == c; });
    // A name that ends here comes before the names that begin with it.
    if (begin != end && begin->size() == depth + 1) {
      longest = depth + 1;
      ++begin;
    }
  }
  return longest;
}

bool SpecialTokens::IsSpecial(TokenId id) const {
  const auto it = by_id_.find(id);
  return it != by_id_.end() && by_name_.find(it->second)->second.special;
}

}  // namespace numoe::text
