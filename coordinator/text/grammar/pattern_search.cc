#include "coordinator/text/grammar/pattern_search.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/grammar_limits.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/regex.h"

namespace numoe::text {
namespace {

// Returns the next state; -1 if there is none.
int32_t Successor(const grammar::DfaState& state, uint8_t byte) {
  const auto edge = std::upper_bound(state.bytes.begin(), state.bytes.end(), byte,
                                     [](uint8_t b, const grammar::ByteEdge& e) { return b < e.low; });
  if (edge == state.bytes.begin() || std::prev(edge)->high < byte) return grammar::kNoState;
  return std::prev(edge)->to;
}

}  // namespace

absl::StatusOr<StopPattern> StopPattern::Compile(std::string source) {
  GrammarLimits bounds;
  bounds.source_bytes = limits::kPatternSourceBytesMax;
  bounds.nfa_states = limits::kPatternNfaStatesMax;
  bounds.dfa_states = limits::kPatternDfaStatesMax;
  bounds.subset_items = limits::kPatternSubsetItemsMax;
  ASSIGN_OR_RETURN(auto machine,
                   grammar::CompileRegex(source, grammar::RegexMatch::kWithin, grammar::EncodePlain, bounds));
  if (machine->empty()) return absl::InvalidArgumentError("no text at all matches the regular expression");
  if (machine->states[0].final) {
    return absl::InvalidArgumentError(
        "the regular expression matches the empty text, which would be found before the first byte; write it "
        "so that a match has at least one character");
  }
  return StopPattern{std::move(source), std::move(machine)};
}

PatternSearch::PatternSearch(StopPattern pattern) : pattern_(std::move(pattern)) {
  NUMOE_CHECK(pattern_.machine != nullptr && !pattern_.machine->empty());
  reached_.assign(pattern_.machine->states.size(), -1);
}

std::optional<int64_t> PatternSearch::Read(uint8_t byte) {
  std::optional<int64_t> found;
  next_.clear();
  threads_.push_back({0, position_});
  for (const Thread& thread : threads_) {
    const int32_t to = Successor(pattern_.machine->states[static_cast<size_t>(thread.state)], byte);
    if (to == grammar::kNoState) continue;
    int64_t& reached = reached_[static_cast<size_t>(to)];
    if (reached == position_) continue;  // a thread that began earlier is in this state
    reached = position_;
    next_.push_back({to, thread.begin});
    if (!found && pattern_.machine->states[static_cast<size_t>(to)].final) found = thread.begin;
  }
  std::swap(threads_, next_);
  NUMOE_DCHECK_LE(threads_.size(), pattern_.machine->states.size());
  ++position_;
  return found;
}

void PatternSearch::Restart() {
  threads_.clear();
  std::fill(reached_.begin(), reached_.end(), -1);
  position_ = 0;
}

}  // namespace numoe::text
