// The subset construction, and operations on deterministic automata.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <map>
#include <unordered_map>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {
namespace {

using Subset = std::vector<int32_t>;  // sorted NFA states that have an edge for a byte or a call, or accept

struct SubsetHash {
  size_t operator()(const Subset& subset) const {
    uint64_t hash = subset.size();
    for (const int32_t s : subset) hash = (hash ^ static_cast<uint64_t>(s)) * 0x9e3779b97f4a7c15ull;
    return static_cast<size_t>(hash ^ (hash >> 29));
  }
};

absl::Status TooManyStates(const GrammarLimits& limits) {
  return absl::ResourceExhaustedError(
      fmt::format("the grammar is too large: it needs more than {} states; use fewer or smaller counted "
                  "repetitions, or simpler patterns",
                  limits.dfa_states));
}

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, int32_t accept, const GrammarLimits& limits)
      : nfa_(nfa), accept_(accept), limits_(limits), seen_(nfa.size(), 0) {}

  absl::StatusOr<Dfa> Run(int32_t start) {
    StateOf({start});
    for (size_t i = 0; i < subsets_.size(); ++i) {
      if (subsets_.size() > limits_.dfa_states || items_ > limits_.subset_items)
        return TooManyStates(limits_);
      Expand(static_cast<int32_t>(i));
    }
    NUMOE_CHECK_EQ(dfa_.states.size(), subsets_.size());
    return std::move(dfa_);
  }

 private:
  // Returns the state for the set of NFA states that are reachable from `states` without reading a byte.
  int32_t StateOf(const std::vector<int32_t>& states) {
    ++stamp_;
    stack_ = states;
    Subset subset;
    while (!stack_.empty()) {
      const int32_t at = stack_.back();
      stack_.pop_back();
      NUMOE_DCHECK(0 <= at && static_cast<size_t>(at) < seen_.size());
      if (seen_[static_cast<size_t>(at)] == stamp_) continue;
      seen_[static_cast<size_t>(at)] = stamp_;
      bool leads_on = at == accept_;
      nfa_.ForEachEdge(at, [&](const Nfa::Edge& edge) {
        NUMOE_DCHECK(edge.kind != Nfa::EdgeKind::kBegin && edge.kind != Nfa::EdgeKind::kEnd);
        if (edge.kind == Nfa::EdgeKind::kEpsilon) {
          stack_.push_back(edge.to);
        } else {
          leads_on = true;
        }
      });
      if (leads_on) subset.push_back(at);
    }
    std::sort(subset.begin(), subset.end());
    const auto [place, added] = ids_.try_emplace(std::move(subset), static_cast<int32_t>(subsets_.size()));
    if (added) {
      items_ += place->first.size();
      subsets_.push_back(&place->first);
      dfa_.states.emplace_back();
      dfa_.states.back().final = std::binary_search(place->first.begin(), place->first.end(), accept_);
    }
    return place->second;
  }

  void Expand(int32_t id) {
    NUMOE_DCHECK(dfa_.states[static_cast<size_t>(id)].bytes.empty()) << "a state is expanded once";
    bytes_.clear();
    calls_.clear();
    for (const int32_t at : *subsets_[static_cast<size_t>(id)]) {
      nfa_.ForEachEdge(at, [&](const Nfa::Edge& edge) {
        if (edge.kind == Nfa::EdgeKind::kByte) bytes_.push_back({edge.low, edge.high, edge.to});
        if (edge.kind == Nfa::EdgeKind::kCall) calls_[edge.rule].push_back(edge.to);
      });
    }
    // All bytes between two neighbouring borders lead to the same set.
    std::bitset<257> borders;
    for (const ByteEdge& edge : bytes_) {
      borders.set(edge.low);
      borders.set(edge.high + 1u);
    }
    std::vector<ByteEdge> edges;
    std::vector<int32_t> targets;
    for (unsigned low = 0; low < 256;) {
      unsigned high = low + 1;
      while (high < 256 && !borders[high]) ++high;
      targets.clear();
      for (const ByteEdge& edge : bytes_)
        if (edge.low <= low && low <= edge.high) targets.push_back(edge.to);
      if (!targets.empty()) {
        const int32_t to = StateOf(targets);
        if (!edges.empty() && edges.back().to == to && edges.back().high + 1u == low) {
          edges.back().high = static_cast<uint8_t>(high - 1);
        } else {
          edges.push_back({static_cast<uint8_t>(low), static_cast<uint8_t>(high - 1), to});
        }
      }
      low = high;
    }
    std::vector<CallEdge> calls;
    for (const auto& [rule, to] : calls_) calls.push_back({rule, StateOf(to)});
    dfa_.states[static_cast<size_t>(id)].bytes = std::move(edges);
    dfa_.states[static_cast<size_t>(id)].calls = std::move(calls);
  }

  const Nfa& nfa_;
  const int32_t accept_;
  const GrammarLimits& limits_;
  Dfa dfa_;
  std::unordered_map<Subset, int32_t, SubsetHash> ids_;
  std::vector<const Subset*> subsets_;  // by state; the addresses of map nodes do not change
  size_t items_ = 0;
  std::vector<uint32_t> seen_;
  uint32_t stamp_ = 0;
  std::vector<int32_t> stack_;
  std::vector<ByteEdge> bytes_;
  std::map<RuleId, std::vector<int32_t>> calls_;
};

int32_t Follow(const Dfa& dfa, int32_t state, unsigned byte) {
  NUMOE_DCHECK_LT(byte, 256u);
  if (state == kNoState) return kNoState;
  for (const ByteEdge& edge : dfa.states[static_cast<size_t>(state)].bytes)
    if (edge.low <= byte && byte <= edge.high) return edge.to;
  return kNoState;
}

}  // namespace

absl::StatusOr<Dfa> Determinise(const Nfa& nfa, int32_t start, int32_t accept, const GrammarLimits& limits) {
  const auto is_state = [&nfa](int32_t state) {
    return 0 <= state && static_cast<size_t>(state) < nfa.size();
  };
  NUMOE_CHECK(is_state(start) && is_state(accept));
  return SubsetConstruction(nfa, accept, limits).Run(start);
}

absl::StatusOr<std::shared_ptr<const Dfa>> Combine(const Dfa& first, const Dfa& second, Combination how,
                                                   const GrammarLimits& limits) {
  auto result = std::make_shared<Dfa>();
  if (first.empty()) return result;
  std::map<std::pair<int32_t, int32_t>, int32_t> ids;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto state_of = [&](int32_t a, int32_t b) {
    const auto [place, added] = ids.try_emplace({a, b}, static_cast<int32_t>(pairs.size()));
    if (added) {
      pairs.emplace_back(a, b);
      result->states.emplace_back();
      const bool in_second = b != kNoState && second.states[static_cast<size_t>(b)].final;
      result->states.back().final =
          first.states[static_cast<size_t>(a)].final && in_second == (how == Combination::kBoth);
    }
    return place->second;
  };
  state_of(0, second.empty() ? kNoState : 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > limits.dfa_states) return TooManyStates(limits);
    const auto [a, b] = pairs[i];
    NUMOE_CHECK(first.states[static_cast<size_t>(a)].calls.empty())
        << "only automata without calls can be combined";
    std::vector<ByteEdge> edges;
    for (const ByteEdge& edge : first.states[static_cast<size_t>(a)].bytes) {
      for (unsigned low = edge.low; low <= edge.high;) {
        const int32_t to_second = Follow(second, b, low);
        unsigned high = low;
        while (high < edge.high && Follow(second, b, high + 1) == to_second) ++high;
        if (to_second != kNoState || how == Combination::kFirstOnly)
          edges.push_back(
              {static_cast<uint8_t>(low), static_cast<uint8_t>(high), state_of(edge.to, to_second)});
        low = high + 1;
      }
    }
    result->states[i].bytes = std::move(edges);
  }
  NUMOE_CHECK_EQ(result->states.size(), pairs.size());
  Trim(*result, {});
  return result;
}

bool Matches(const Dfa& machine, std::string_view text) {
  int32_t state = machine.empty() ? kNoState : 0;
  for (const char c : text) state = Follow(machine, state, static_cast<uint8_t>(c));
  return state != kNoState && machine.states[static_cast<size_t>(state)].final;
}

std::vector<bool> ReachesEnd(const Dfa& dfa, const std::vector<bool>& productive) {
  std::vector<std::vector<int32_t>> back(dfa.states.size());
  std::vector<int32_t> stack;
  std::vector<bool> alive(dfa.states.size(), false);
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    const auto from = static_cast<int32_t>(i);
    for (const ByteEdge& edge : dfa.states[i].bytes) back[static_cast<size_t>(edge.to)].push_back(from);
    for (const CallEdge& edge : dfa.states[i].calls)
      if (productive[static_cast<size_t>(edge.rule)]) back[static_cast<size_t>(edge.to)].push_back(from);
    if (dfa.states[i].final) {
      alive[i] = true;
      stack.push_back(from);
    }
  }
  while (!stack.empty()) {
    const auto at = static_cast<size_t>(stack.back());
    stack.pop_back();
    for (const int32_t from : back[at]) {
      if (alive[static_cast<size_t>(from)]) continue;
      alive[static_cast<size_t>(from)] = true;
      stack.push_back(from);
    }
  }
  return alive;
}

void Trim(Dfa& dfa, const std::vector<bool>& productive) {
  if (dfa.empty()) return;
  const std::vector<bool> alive = ReachesEnd(dfa, productive);
  std::vector<int32_t> renumbered(dfa.states.size(), kNoState);
  std::vector<size_t> order;
  const auto visit = [&](int32_t state) {
    const auto index = static_cast<size_t>(state);
    if (!alive[index] || renumbered[index] != kNoState) return;
    renumbered[index] = static_cast<int32_t>(order.size());
    order.push_back(index);
  };
  visit(0);
  for (size_t i = 0; i < order.size(); ++i) {
    DfaState& state = dfa.states[order[i]];
    std::erase_if(state.bytes, [&](const ByteEdge& e) { return !alive[static_cast<size_t>(e.to)]; });
    std::erase_if(state.calls, [&](const CallEdge& e) {
      return !alive[static_cast<size_t>(e.to)] || !productive[static_cast<size_t>(e.rule)];
    });
    for (const ByteEdge& edge : state.bytes) visit(edge.to);
    for (const CallEdge& edge : state.calls) visit(edge.to);
  }
  Dfa trimmed;
  for (const size_t index : order) {
    trimmed.states.push_back(std::move(dfa.states[index]));
    for (ByteEdge& edge : trimmed.states.back().bytes) edge.to = renumbered[static_cast<size_t>(edge.to)];
    for (CallEdge& edge : trimmed.states.back().calls) edge.to = renumbered[static_cast<size_t>(edge.to)];
  }
  NUMOE_DCHECK_LE(trimmed.states.size(), renumbered.size());
  dfa = std::move(trimmed);
}

}  // namespace numoe::text::grammar
