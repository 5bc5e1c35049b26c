#include "coordinator/text/grammar/literal_choice.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/grammar/token_trie.h"

namespace numoe::text {

LiteralChoice::LiteralChoice(const GrammarVocabulary& vocabulary, std::vector<std::string> texts)
    : vocabulary_(&vocabulary), texts_(std::move(texts)), possible_(texts_.size()) {
  std::iota(possible_.begin(), possible_.end(), size_t{0});
  std::stable_sort(possible_.begin(), possible_.end(),
                   [this](size_t a, size_t b) { return texts_[a] < texts_[b]; });
}

void LiteralChoice::AddMask(absl::Span<uint64_t> mask) const {
  NUMOE_CHECK_EQ(mask.size(), vocabulary_->mask_words());
  Walk(0, possible_, accepted_bytes_, mask);
}

// Both the texts and the children of a node are sorted by their bytes, so the two lists are merged.
void LiteralChoice::Walk(int32_t node, Places places, size_t at, absl::Span<uint64_t> mask) const {
  const auto nodes = vocabulary_->nodes();
  while (!places.empty() && texts_[places[0]].size() == at) places.remove_prefix(1);
  int32_t child = node + 1;
  while (!places.empty() && child < nodes[static_cast<size_t>(node)].end) {
    const GrammarVocabulary::Node& here = nodes[static_cast<size_t>(child)];
    NUMOE_DCHECK(node < here.end && at < texts_[places[0]].size());
    const auto byte = static_cast<uint8_t>(texts_[places[0]][at]);
    if (here.byte > byte) {
      places.remove_prefix(1);
      continue;
    }
    if (here.byte == byte) {
      size_t same = 1;
      while (same < places.size() && static_cast<uint8_t>(texts_[places[same]][at]) == byte) ++same;
      const auto next = static_cast<size_t>(nodes[static_cast<size_t>(child) + 1].first_token);
      for (auto t = static_cast<size_t>(here.first_token); t < next; ++t)
        grammar::SetBit(mask, vocabulary_->sorted_tokens()[t]);
      Walk(child, places.subspan(0, same), at + 1, mask);
      places.remove_prefix(same);
    }
    child = here.end;
  }
}

bool LiteralChoice::Accept(TokenId token) {
  if (token < 0 || token >= vocabulary_->size()) return false;
  const std::string_view bytes = vocabulary_->bytes(token);
  std::vector<size_t> left;
  for (const size_t place : possible_)
    if (!bytes.empty() && texts_[place].compare(accepted_bytes_, bytes.size(), bytes) == 0)
      left.push_back(place);
  if (left.empty()) return false;
  possible_ = std::move(left);
  NUMOE_DCHECK_LE(accepted_bytes_ + bytes.size(), texts_[possible_[0]].size());
  accepted_bytes_ += bytes.size();
  return true;
}

std::vector<size_t> LiteralChoice::Complete() const {
  std::vector<size_t> complete;
  for (const size_t place : possible_)
    if (texts_[place].size() == accepted_bytes_) complete.push_back(place);
  return complete;
}

}  // namespace numoe::text
