#include "coordinator/grammar/token_masks.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "common/base/limits.h"

namespace numoe::grammar {
namespace {

using TrieNode = GrammarVocabulary::Node;

void SetBit(absl::Span<uint64_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}

// One byte from `from` to `to`; the case of a single thread that only reads bytes is most of all steps.
inline void StepFast(Pushdown& machine, const Kernel& from, uint8_t byte, Kernel& to) {
  const Program& program = machine.program();
  if (from.threads.size() == 1 && program.IsPlain(from.threads[0].state)) {
    const StateId next = program.Next(from.threads[0].state, byte);
    if (next == kNoState) return to.Clear();
    if (program.IsPlain(next)) {
      to.Clear();
      to.threads.push_back({next, from.threads[0].frame});
      return;
    }
  }
  machine.Step(from, byte, to);
}

// Walks the parts of a trie that the machine accepts; `accept(first, end)` gets the tokens of each node.
template <typename Node, typename Accept>
bool WalkTrie(Pushdown& machine, const Kernel& start, absl::Span<const Node> nodes, WalkScratch& scratch,
              Accept accept) {
  const size_t base = machine.frames().size();
  const size_t steps = machine.steps();
  bool within_budget = true;
  scratch.kernels[0] = start;
  scratch.frames[0] = base;
  const auto count = static_cast<int32_t>(nodes.size()) - 1;
  for (int32_t n = 1; n < count;) {
    const Node& node = nodes[static_cast<size_t>(n)];
    const size_t depth = node.depth;
    machine.frames().Truncate(scratch.frames[depth - 1]);
    Kernel& here = scratch.kernels[depth];
    StepFast(machine, scratch.kernels[depth - 1], node.byte, here);
    scratch.frames[depth] = machine.frames().size();
    if (!here.alive()) {
      n = node.end;
    } else {
      accept(node.first_token, nodes[static_cast<size_t>(n) + 1].first_token);
      ++n;
    }
    if (machine.steps() - steps > limits::kGrammarMaskStepsMax) {
      within_budget = false;
      break;
    }
  }
  machine.frames().Truncate(base);
  return within_budget;
}

// One state's mask: a walk over the vocabulary from that state with an unknown stack, which is kBase.
class MaskBuilder {
 public:
  MaskBuilder(const Program& program, const GrammarVocabulary& vocabulary, StateId state)
      : program_(program),
        vocabulary_(vocabulary),
        machine_(&program),
        follow_(program.rule(program.RuleOf(state)).follow) {
    scratch_.kernels[0].threads.push_back({state, kBase});
    scratch_.frames[0] = machine_.frames().size();
  }

  std::unique_ptr<TokenMasks::Mask> Build() {
    auto mask = std::make_unique<TokenMasks::Mask>();
    Walk();
    if (crossing_bytes_ > limits::kGrammarCrossingBytesMax ||
        machine_.steps() > limits::kGrammarMaskStepsMax || machine_.overflowed()) {
      mask->walks_everything = true;
      return mask;
    }
    StoreAccepted(*mask);
    StoreCrossing(mask->crossing);
    return mask;
  }
  size_t visited() const { return visited_; }

 private:
  struct Remainder {
    std::string_view bytes;
    TokenId token;
  };

  void Walk() {
    const auto nodes = vocabulary_.nodes();
    std::vector<size_t> crossings;  // depths on the path where the rule ended and the next byte may follow it
    for (int32_t n = 1; n < vocabulary_.node_count();) {
      const TrieNode& node = nodes[static_cast<size_t>(n)];
      const size_t depth = node.depth;
      ++visited_;
      machine_.frames().Truncate(scratch_.frames[depth - 1]);
      const Kernel& parent = scratch_.kernels[depth - 1];
      while (!crossings.empty() && crossings.back() + 1 >= depth) crossings.pop_back();
      if (depth > 1 && parent.reached_base && follow_[node.byte]) crossings.push_back(depth - 1);
      Kernel& here = scratch_.kernels[depth];
      StepFast(machine_, parent, node.byte, here);
      scratch_.frames[depth] = machine_.frames().size();
      const bool alive = here.alive();
      if (alive && AcceptsWholeSubtree(here, node)) {
        Accept(node.first_token, nodes[static_cast<size_t>(node.end)].first_token);
        n = node.end;
        continue;
      }
      const int32_t end_token = nodes[static_cast<size_t>(n) + 1].first_token;
      if (alive) {
        Accept(node.first_token, end_token);
      } else {
        for (int32_t t = node.first_token; t < end_token; ++t) AddRemainders(t, crossings);
      }
      n = alive || !crossings.empty() ? n + 1 : node.end;
      if (crossing_bytes_ > limits::kGrammarCrossingBytesMax ||
          machine_.steps() > limits::kGrammarMaskStepsMax)
        return;
    }
  }

  bool AcceptsWholeSubtree(const Kernel& here, const TrieNode& node) const {
    if (here.threads.size() != 1) return false;
    const LoopClass& loop = program_.Loop(here.threads[0].state);
    return node.characters <= loop.length && (node.ascii[0] & ~loop.ascii[0]) == 0 &&
           (node.ascii[1] & ~loop.ascii[1]) == 0 && (!node.others || (loop.others && node.utf8));
  }

  void Accept(int32_t first, int32_t end) {
    if (first == end) return;
    accepted_ += static_cast<size_t>(end - first);
    if (!ranges_.empty() && ranges_.back().second == first) {
      ranges_.back().second = end;
    } else {
      ranges_.emplace_back(first, end);
    }
  }

  void AddRemainders(int32_t sorted_index, const std::vector<size_t>& crossings) {
    const TokenId token = vocabulary_.sorted_tokens()[static_cast<size_t>(sorted_index)];
    for (const size_t depth : crossings) {
      remainders_.push_back({vocabulary_.bytes(token).substr(depth), token});
      crossing_bytes_ += remainders_.back().bytes.size();
    }
  }

  void StoreAccepted(TokenMasks::Mask& mask) const {
    const auto sorted = vocabulary_.sorted_tokens();
    if (accepted_ * sizeof(TokenId) < vocabulary_.mask_words() * sizeof(uint64_t)) {
      mask.tokens.reserve(accepted_);
      for (const auto& [first, end] : ranges_)
        mask.tokens.insert(mask.tokens.end(), sorted.begin() + first, sorted.begin() + end);
      return;
    }
    mask.bits.assign(vocabulary_.mask_words(), 0);
    for (const auto& [first, end] : ranges_)
      for (int32_t t = first; t < end; ++t) SetBit(absl::MakeSpan(mask.bits), sorted[static_cast<size_t>(t)]);
  }

  void StoreCrossing(TokenMasks::Crossing& crossing) {
    if (remainders_.empty()) return;
    std::sort(remainders_.begin(), remainders_.end(),
              [](const Remainder& a, const Remainder& b) { return a.bytes < b.bytes; });
    crossing.nodes.push_back({});
    std::string_view previous;
    std::vector<size_t> path = {0};
    const auto close = [&](size_t depth) {
      for (; path.size() > depth + 1; path.pop_back())
        crossing.nodes[path.back()].end = static_cast<int32_t>(crossing.nodes.size());
    };
    for (const Remainder& remainder : remainders_) {
      size_t shared = 0;
      while (shared < std::min(previous.size(), remainder.bytes.size()) &&
             previous[shared] == remainder.bytes[shared])
        ++shared;
      close(shared);
      for (size_t d = shared; d < remainder.bytes.size(); ++d) {
        path.push_back(crossing.nodes.size());
        crossing.nodes.push_back({.byte = static_cast<uint8_t>(remainder.bytes[d]),
                                  .depth = static_cast<uint8_t>(d + 1),
                                  .first_token = static_cast<int32_t>(crossing.tokens.size())});
      }
      crossing.tokens.push_back(remainder.token);
      previous = remainder.bytes;
    }
    close(0);
    const auto end = static_cast<int32_t>(crossing.nodes.size());
    crossing.nodes.push_back({.end = end, .first_token = static_cast<int32_t>(crossing.tokens.size())});
  }

  const Program& program_;
  const GrammarVocabulary& vocabulary_;
  Pushdown machine_;
  const ByteSet& follow_;
  WalkScratch scratch_;
  std::vector<std::pair<int32_t, int32_t>> ranges_;  // of sorted tokens
  size_t accepted_ = 0;
  std::vector<Remainder> remainders_;
  size_t crossing_bytes_ = 0;
  size_t visited_ = 0;
};

}  // namespace

TokenMasks::TokenMasks(const Program* program, std::shared_ptr<const GrammarVocabulary> vocabulary)
    : program_(program), vocabulary_(std::move(vocabulary)), masks_(program->states()) {}

TokenMasks::~TokenMasks() {
  for (const std::atomic<const Mask*>& mask : masks_) delete mask.load(std::memory_order_relaxed);
}

const TokenMasks::Mask& TokenMasks::Of(StateId state) const {
  std::atomic<const Mask*>& slot = masks_[static_cast<size_t>(state)];
  if (const Mask* known = slot.load(std::memory_order_acquire)) return *known;
  std::unique_ptr<const Mask> made = MaskBuilder(*program_, *vocabulary_, state).Build();
  const Mask* expected = nullptr;
  // Another thread may have been faster; both computed the same.
  if (!slot.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return *expected;
  return *made.release();
}

void TokenMasks::Warm(size_t trie_nodes) const {
  size_t visited = 0;
  for (size_t s = 0; s < masks_.size() && visited < trie_nodes; ++s) {
    MaskBuilder builder(*program_, *vocabulary_, static_cast<StateId>(s));
    const Mask* expected = nullptr;
    std::unique_ptr<const Mask> made = builder.Build();
    visited += builder.visited();
    if (masks_[s].compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) made.release();
  }
}

bool AddAcceptedTokens(Pushdown& machine, const Kernel& kernel, const TokenMasks& masks, WalkScratch& scratch,
                       absl::Span<uint64_t> mask) {
  bool within_budget = true;
  for (const Thread& thread : kernel.threads) {
    const TokenMasks::Mask& known = masks.Of(thread.state);
    if (known.walks_everything) {
      Kernel alone;
      alone.threads.push_back(thread);
      within_budget &= AddTokensByWalking(machine, alone, masks.vocabulary(), scratch, mask);
      continue;
    }
    for (const TokenId token : known.tokens) SetBit(mask, token);
    for (size_t w = 0; w < known.bits.size(); ++w) mask[w] |= known.bits[w];
    if (thread.frame == kBase || known.crossing.nodes.empty()) continue;
    Kernel returned;
    machine.Return(thread.frame, returned);
    const TokenMasks::Crossing& crossing = known.crossing;
    within_budget &= WalkTrie(machine, returned, absl::MakeConstSpan(crossing.nodes), scratch,
                              [&](int32_t first, int32_t end) {
                                for (int32_t t = first; t < end; ++t)
                                  SetBit(mask, crossing.tokens[static_cast<size_t>(t)]);
                              });
  }
  return within_budget;
}

bool AddTokensByWalking(Pushdown& machine, const Kernel& kernel, const GrammarVocabulary& vocabulary,
                        WalkScratch& scratch, absl::Span<uint64_t> mask) {
  return WalkTrie(machine, kernel, vocabulary.nodes(), scratch, [&](int32_t first, int32_t end) {
    for (int32_t t = first; t < end; ++t) SetBit(mask, vocabulary.sorted_tokens()[static_cast<size_t>(t)]);
  });
}

}  // namespace numoe::grammar
