#include "coordinator/text/grammar/forbidden_words.h"

#include <array>

#include "common/base/check.h"

namespace numoe::text {

ForbiddenWords::ForbiddenWords(const std::vector<std::string>& words,
                               std::shared_ptr<const GrammarVocabulary> vocabulary,
                               std::vector<TokenId> names)
    : vocabulary_(std::move(vocabulary)), always_(std::move(names)) {
  NUMOE_CHECK(vocabulary_ != nullptr && !words.empty());
  for (const std::string& word : words) Add(word);
  Link();
  Walk(kStart, /*from_before=*/false, [this](TokenId token) { always_.push_back(token); });
}

void ForbiddenWords::Add(const std::string& word) {
  NUMOE_CHECK(!word.empty());
  State at = kStart;
  for (const char c : word) {
    const auto byte = static_cast<uint8_t>(c);
    State next = Child(at, byte);
    if (next == kStart) {
      next = static_cast<State>(nodes_.size());
      nodes_[static_cast<size_t>(at)].children.emplace_back(byte, next);
      nodes_.push_back({.depth = nodes_[static_cast<size_t>(at)].depth + 1});
    }
    at = next;
  }
  nodes_[static_cast<size_t>(at)].ends = true;
}

// Sets the fallbacks in the order of the texts' lengths, because a fallback is always shorter.
void ForbiddenWords::Link() {
  std::vector<State> queue = {kStart};
  for (size_t i = 0; i < queue.size(); ++i) {
    const State at = queue[i];
    for (const auto& [byte, child] : nodes_[static_cast<size_t>(at)].children) {
      Node& node = nodes_[static_cast<size_t>(child)];
      node.fallback = at == kStart ? kStart : Step(nodes_[static_cast<size_t>(at)].fallback, byte);
      node.ends |= nodes_[static_cast<size_t>(node.fallback)].ends;
      queue.push_back(child);
    }
  }
  NUMOE_CHECK_EQ(queue.size(), nodes_.size());
}

// Returns kStart if there is no child, since kStart is never a child.
ForbiddenWords::State ForbiddenWords::Child(State state, uint8_t byte) const {
  for (const auto& [label, child] : nodes_[static_cast<size_t>(state)].children)
    if (label == byte) return child;
  return kStart;
}

ForbiddenWords::State ForbiddenWords::Step(State state, uint8_t byte) const {
  while (true) {
    const State child = Child(state, byte);
    if (child != kStart || state == kStart) return child;
    state = nodes_[static_cast<size_t>(state)].fallback;
  }
}

// Visits the vocabulary's tokens that complete a word. With `from_before`, only words that began before the
// token count, so that only a small part of the vocabulary is visited.
template <typename Visit>
void ForbiddenWords::Walk(State start, bool from_before, Visit visit) const {
  const absl::Span<const GrammarVocabulary::Node> nodes = vocabulary_->nodes();
  std::array<State, 256> states;
  states[0] = start;
  for (int32_t n = 1; n < vocabulary_->node_count();) {
    const GrammarVocabulary::Node& node = nodes[static_cast<size_t>(n)];
    NUMOE_DCHECK(node.depth > 0);
    const State state = Step(states[node.depth - 1u], node.byte);
    states[node.depth] = state;
    const Node& reached = nodes_[static_cast<size_t>(state)];
    if (reached.ends) {
      const auto first = static_cast<size_t>(node.first_token);
      const auto end = static_cast<size_t>(nodes[static_cast<size_t>(node.end)].first_token);
      for (size_t i = first; i < end; ++i) visit(vocabulary_->sorted_tokens()[i]);
      n = node.end;
    } else if (from_before && reached.depth <= node.depth) {
      n = node.end;
    } else {
      ++n;
    }
  }
}

void ForbiddenWords::ForEachForbidden(State state, absl::FunctionRef<void(TokenId)> forbid) const {
  NUMOE_DCHECK(0 <= state && static_cast<size_t>(state) < nodes_.size());
  for (const TokenId token : always_) forbid(token);
  if (state != kStart) Walk(state, /*from_before=*/true, forbid);
}

ForbiddenWords::State ForbiddenWords::Next(State state, TokenId token) const {
  const std::string_view bytes = vocabulary_->bytes(token);
  if (bytes.empty()) return kStart;
  for (const char byte : bytes) state = Step(state, static_cast<uint8_t>(byte));
  return state;
}

}  // namespace numoe::text
