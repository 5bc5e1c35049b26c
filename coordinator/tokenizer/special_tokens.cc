#include "coordinator/tokenizer/special_tokens.h"

#include <algorithm>

namespace numoe {

void SpecialTokens::Add(const std::string& name, SpecialToken token) {
  if (name.empty()) return;
  by_name_[name] = token;
  by_id_[token.id] = name;
  std::vector<std::string>& names = by_first_[name[0]];
  names.push_back(name);
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::optional<SpecialTokens::Match> SpecialTokens::Find(std::string_view text,
                                                        const std::vector<bool>& trusted, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!trusted[at]) continue;
    const auto candidates = by_first_.find(text[at]);
    if (candidates == by_first_.end()) continue;
    for (const std::string& name : candidates->second) {
      if (text.compare(at, name.size(), name) != 0) continue;
      if (std::find(trusted.begin() + at, trusted.begin() + at + name.size(), false) !=
          trusted.begin() + at + name.size()) {
        continue;
      }
      return Match{at, name.size(), by_name_.find(name)->second.id};
    }
  }
  return std::nullopt;
}

}  // namespace numoe
