#include "coordinator/text/grammar/token_trie.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::text::grammar {

TokenTrie TokenTrie::Build(std::vector<Item> items) {
  TokenTrie trie;
  if (items.empty()) return trie;
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.bytes < b.bytes; });
  trie.nodes.push_back({});
  std::string_view previous;
  std::vector<size_t> path = {0};  // the nodes of the previous item, by depth
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      trie.nodes[path.back()].end = static_cast<int32_t>(trie.nodes.size());
  };
  for (const Item& item : items) {
    const std::string_view bytes = item.bytes;
    const auto [here, there] = std::mismatch(bytes.begin(), bytes.end(), previous.begin(), previous.end());
    const auto shared = static_cast<size_t>(here - bytes.begin());
    NUMOE_DCHECK(shared < path.size() && bytes.size() <= UINT8_MAX)
        << "items must be sorted and have at most 255 bytes";
    close(shared);
    for (size_t d = shared; d < bytes.size(); ++d) {
      path.push_back(trie.nodes.size());
      trie.nodes.push_back({.byte = static_cast<uint8_t>(bytes[d]),
                            .depth = static_cast<uint8_t>(d + 1),
                            .first_token = static_cast<int32_t>(trie.tokens.size())});
    }
    trie.tokens.push_back(item.token);
    trie.characters.push_back(item.characters);
    previous = bytes;
  }
  close(0);
  const auto end = static_cast<int32_t>(trie.nodes.size());
  trie.nodes[0].end = end;
  trie.nodes.push_back({.end = end, .first_token = static_cast<int32_t>(trie.tokens.size())});
  NUMOE_CHECK(path.size() == 1 && trie.tokens.size() == trie.characters.size());
  return trie;
}

}  // namespace numoe::text::grammar
