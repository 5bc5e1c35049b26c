// TokenTrie: a small trie of the remainders of tokens, and WalkTrie, which walks tries with a pushdown
// automaton.
//
// If a token extends beyond the end of a rule, its remainder is stored in a TokenTrie, which has a node for
// each different beginning, in depth-first order like GrammarVocabulary's nodes. WalkTrie visits the part of
// a trie that an automaton accepts, and leaves the automaton unchanged. Tries are immutable; scratch memory
// belongs to one thread.
#pragma once

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/text/grammar/grammar_limits.h"
#include "coordinator/text/grammar/pushdown.h"

namespace numoe::text::grammar {

struct TokenTrie {
  struct Node {
    uint8_t byte = 0;
    uint8_t depth = 0;
    int32_t end = 0;          // first node after the subtree
    int32_t first_token = 0;  // the tokens that end here are [first_token, (this + 1)->first_token)
  };
  struct Item {
    std::string_view bytes;
    TokenId token = 0;
    uint8_t characters = 0;
  };

  std::vector<Node> nodes;  // [0] is the root, and the last one is only an end; empty if there are no tokens
  std::vector<TokenId> tokens;
  std::vector<uint8_t> characters;  // by index in `tokens`

  static TokenTrie Build(std::vector<Item> items);
  bool empty() const { return nodes.empty(); }
};

/// Scratch memory of a walk, by depth.
struct WalkScratch {
  std::vector<Kernel> kernels = std::vector<Kernel>(256);
  std::vector<size_t> frames = std::vector<size_t>(256);  // the size of the arena after the kernel was made
};

inline void SetBit(absl::Span<uint64_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}

/// Does the same as Pushdown::Step, but faster for a single thread that only reads bytes, which is the usual
/// case.
inline void StepFast(Pushdown& machine, const Kernel& from, uint8_t byte, Kernel& to) {
  const Program& program = machine.program();
  if (from.threads.size() == 1 && program.IsPlain(from.threads[0].state)) {
    const Thread& thread = from.threads[0];
    const StateId next = program.Next(thread.state, byte);
    if (next == kNoState) return to.Clear();
    if (program.IsPlain(next)) {
      to.Clear();
      to.threads.push_back({next, thread.frame, thread.count});
      return;
    }
  }
  machine.Step(from, byte, to);
}

/// Calls `accept(first_token, end_token)` for every node whose bytes `machine` accepts after `start`. Returns
/// false, and has not visited all nodes, if that takes more than kGrammarMaskStepsMax steps.
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

}  // namespace numoe::text::grammar
