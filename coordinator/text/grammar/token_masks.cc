#include "coordinator/text/grammar/token_masks.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "coordinator/text/grammar/grammar_limits.h"
#include "coordinator/text/grammar/string_tokens.h"

namespace numoe::text::grammar {
namespace {

using TrieNode = GrammarVocabulary::Node;

// Computes a state's mask by a walk over the vocabulary from that state. The stack is unknown; kBase stands
// for it.
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
    mask->crossing = TokenTrie::Build(std::move(remainders_));
    return mask;
  }
  /// The number of trie nodes visited, plus the steps of the machine.
  size_t steps() const { return visited_ + machine_.steps(); }

 private:
  void Walk() {
    const auto nodes = vocabulary_.nodes();
    std::vector<size_t>
        crossings;  // depths on the path at which the rule ended and the next byte may follow it
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
    const Thread& thread = here.threads[0];
    const LoopClass& loop = program_.Loop(thread.state);
    int length = loop.length;
    if (program_.IsCounting(thread.state)) {
      const int max = program_.rule(program_.RuleOf(thread.state)).max;
      if (max != kUnbounded) length = std::min(length, max - thread.count);
    }
    return node.characters <= length && (node.ascii[0] & ~loop.ascii[0]) == 0 &&
           (node.ascii[1] & ~loop.ascii[1]) == 0 && (!node.others || (loop.others && node.utf8));
  }

  void Accept(int32_t first, int32_t end) {
    NUMOE_DCHECK(first <= end && (ranges_.empty() || ranges_.back().second <= first));
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
      NUMOE_DCHECK_LT(depth, vocabulary_.bytes(token).size());
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

  const Program& program_;
  const GrammarVocabulary& vocabulary_;
  Pushdown machine_;
  const ByteSet& follow_;
  WalkScratch scratch_;
  std::vector<std::pair<int32_t, int32_t>> ranges_;  // ranges of the sorted tokens
  size_t accepted_ = 0;
  std::vector<TokenTrie::Item> remainders_;
  size_t crossing_bytes_ = 0;
  size_t visited_ = 0;
};

}  // namespace

TokenMasks::TokenMasks(const Program* program, std::shared_ptr<const GrammarVocabulary> vocabulary)
    : program_(program), vocabulary_(std::move(vocabulary)), masks_(program->states()) {}

TokenMasks::~TokenMasks() {
  for (const std::atomic<const Mask*>& mask : masks_) delete mask.load(std::memory_order_relaxed);
}

size_t TokenMasks::Mask::bytes() const {
  return sizeof(Mask) + tokens.size() * sizeof(TokenId) + bits.size() * sizeof(uint64_t) +
         crossing.nodes.size() * sizeof(TokenTrie::Node) + crossing.tokens.size() * (sizeof(TokenId) + 1);
}

const TokenMasks::Mask* TokenMasks::Keep(StateId state, std::unique_ptr<const Mask> mask) const {
  const size_t bytes = mask->bytes();
  const Mask* expected = nullptr;
  // Another thread may have been faster; both computed the same mask.
  if (!masks_[static_cast<size_t>(state)].compare_exchange_strong(expected, mask.get(),
                                                                  std::memory_order_acq_rel))
    return expected;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return mask.release();
}

const TokenMasks::Mask& TokenMasks::Of(StateId state, Mask& spare) const {
  if (const Mask* known = masks_[static_cast<size_t>(state)].load(std::memory_order_acquire)) return *known;
  std::unique_ptr<Mask> made = MaskBuilder(*program_, *vocabulary_, state).Build();
  if (bytes() < limits::kGrammarMaskBytesMax) return *Keep(state, std::move(made));
  spare = std::move(*made);
  return spare;
}

// Returns how many nodes of the vocabulary begin with two bytes that the state accepts.
int64_t TokenMasks::Reach(StateId state) const {
  const auto nodes = vocabulary_->nodes();
  int64_t reach = 0;
  for (int32_t n = 1; n < vocabulary_->node_count(); n = nodes[static_cast<size_t>(n)].end) {
    const TrieNode& first = nodes[static_cast<size_t>(n)];
    const StateId next = program_->Next(state, first.byte);
    if (next == kNoState) continue;
    for (int32_t m = n + 1; m < first.end; m = nodes[static_cast<size_t>(m)].end) {
      const TrieNode& second = nodes[static_cast<size_t>(m)];
      if (program_->Next(next, second.byte) != kNoState) reach += second.end - m;
    }
  }
  return reach;
}

void TokenMasks::Warm(size_t steps) const {
  std::vector<std::pair<int64_t, StateId>>
      order;  // states with the largest reach first, because they are slow
  for (StateId state = 0; steps > 0 && state < static_cast<StateId>(masks_.size()); ++state)
    if (!program_->rule(program_->RuleOf(state)).is_string) order.emplace_back(-Reach(state), state);
  std::sort(order.begin(), order.end());
  size_t done = 0;
  for (const auto& [reach, state] : order) {
    if (done >= steps || bytes() >= limits::kGrammarMaskBytesMax) return;
    MaskBuilder builder(*program_, *vocabulary_, state);
    Keep(state, builder.Build());
    done += builder.steps();
  }
}

namespace {

// Walks the remainders of tokens after the end of the thread's rule, from the states to which the rule
// returns.
template <typename Accept>
bool WalkCrossing(Pushdown& machine, FrameId frame, const TokenTrie& trie, WalkScratch& scratch,
                  Accept accept) {
  if (frame == kBase || trie.empty()) return true;
  Kernel returned;
  machine.Return(frame, returned);
  return WalkTrie(machine, returned, absl::MakeConstSpan(trie.nodes), scratch, accept);
}

bool AddStringTokens(Pushdown& machine, const Thread& thread, const StringTokens& strings,
                     WalkScratch& scratch, absl::Span<uint64_t> mask) {
  const Program::RuleInfo& rule = machine.program().rule(machine.program().RuleOf(thread.state));
  const StateId place = thread.state - rule.start;
  NUMOE_DCHECK_GE(place, 0);
  constexpr int kAny = StringTokens::kAnyNumber;
  const int least = std::clamp(rule.min - thread.count, 0, kAny);
  const int most = rule.max == kUnbounded ? kAny : std::clamp(rule.max - thread.count, 0, kAny);
  strings.AddTo(place, least, most, mask);
  const TokenTrie& trie = strings.AfterQuote(place);
  return WalkCrossing(machine, thread.frame, trie, scratch, [&](int32_t first, int32_t end) {
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(end); ++t)
      if (least <= trie.characters[t] && trie.characters[t] <= most) SetBit(mask, trie.tokens[t]);
  });
}

}  // namespace

bool AddAcceptedTokens(Pushdown& machine, const Kernel& kernel, const TokenMasks& masks, WalkScratch& scratch,
                       absl::Span<uint64_t> mask) {
  const Program& program = machine.program();
  bool within_budget = true;
  for (const Thread& thread : kernel.threads) {
    if (program.rule(program.RuleOf(thread.state)).is_string) {
      within_budget &= AddStringTokens(machine, thread, masks.vocabulary().strings(), scratch, mask);
      continue;
    }
    TokenMasks::Mask spare;
    const TokenMasks::Mask& known = masks.Of(thread.state, spare);
    if (known.walks_everything) {
      Kernel alone;
      alone.threads.push_back(thread);
      within_budget &= AddTokensByWalking(machine, alone, masks.vocabulary(), scratch, mask);
      continue;
    }
    for (const TokenId token : known.tokens) SetBit(mask, token);
    NUMOE_DCHECK(known.bits.empty() || known.bits.size() == mask.size());
    for (size_t w = 0; w < known.bits.size(); ++w) mask[w] |= known.bits[w];
    const TokenTrie& trie = known.crossing;
    within_budget &= WalkCrossing(machine, thread.frame, trie, scratch, [&](int32_t first, int32_t end) {
      for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(end); ++t)
        SetBit(mask, trie.tokens[t]);
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

}  // namespace numoe::text::grammar
