#include "coordinator/text/grammar/pushdown.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::text::grammar {

FrameId Frames::Intern(const absl::InlinedVector<Thread, 4>& parents) {
  NUMOE_DCHECK(!parents.empty());
  NUMOE_DCHECK(std::adjacent_find(parents.begin(), parents.end(), [](const Thread& a, const Thread& b) {
                 return a.frame > b.frame || a == b;
               }) == parents.end());
  const auto first = static_cast<size_t>(parents[0].frame);
  for (FrameId f = entries_[first].newest_child; f >= 0; f = entries_[static_cast<size_t>(f)].older_sibling) {
    const absl::Span<const Thread> known = Parents(f);
    if (std::equal(known.begin(), known.end(), parents.begin(), parents.end())) return f;
  }
  const auto id = static_cast<FrameId>(entries_.size());
  entries_.push_back({.begin = static_cast<uint32_t>(parents_.size()),
                      .count = static_cast<uint32_t>(parents.size()),
                      .older_sibling = entries_[first].newest_child});
  entries_[first].newest_child = id;
  parents_.insert(parents_.end(), parents.begin(), parents.end());
  return id;
}

void Frames::Truncate(size_t size) {
  NUMOE_CHECK(size >= 1 && size <= entries_.size());
  while (entries_.size() > size) {
    const Entry& last = entries_.back();
    Entry& parent = entries_[static_cast<size_t>(parents_[last.begin].frame)];
    NUMOE_DCHECK(parent.newest_child == static_cast<FrameId>(entries_.size()) - 1);
    parent.newest_child = last.older_sibling;
    parents_.resize(last.begin);
    entries_.pop_back();
  }
}

Kernel Pushdown::Start() const {
  Kernel kernel;
  const StateId start = program_->start();
  kernel.reached_base = program_->IsFinal(start);
  if (!program_->IsLast(start)) kernel.threads.push_back({start, kBase});
  return kernel;
}

void Pushdown::AddThread(Kernel& kernel, Thread thread) {
  NUMOE_DCHECK(thread.state != kNoState);
  if (std::find(kernel.threads.begin(), kernel.threads.end(), thread) == kernel.threads.end())
    kernel.threads.push_back(thread);
}

void Pushdown::Step(const Kernel& from, uint8_t byte, Kernel& to) {
  ++steps_;
  to.Clear();
  pending_.clear();
  for (const Thread& thread : from.threads) {
    int32_t count = thread.count;
    const StateId next = program_->IsCounting(thread.state) ? NextCounting(thread, byte, count)
                                                            : program_->Next(thread.state, byte);
    if (next != kNoState) AddThread(to, {next, thread.frame, count});
    if (!program_->IsPlain(thread.state)) Call(thread.state, thread.frame, byte);
  }
  if (!pending_.empty()) EnterCalls(byte, to);
  ReturnFinished(to);
}

// The next state between two characters of a string with bounds. The closing quote needs at least `min`
// characters, and another character is allowed only if there are fewer than `max`.
StateId Pushdown::NextCounting(const Thread& thread, uint8_t byte, int32_t& count) const {
  const StateId next = program_->Next(thread.state, byte);
  if (next == kNoState) return kNoState;
  const Program::RuleInfo& rule = program_->rule(program_->RuleOf(thread.state));
  NUMOE_DCHECK(rule.is_string && thread.count >= 0);
  if (program_->IsFinal(next)) {
    count = 0;
    return thread.count >= rule.min ? next : kNoState;
  }
  ++count;
  return rule.max == kUnbounded || thread.count < rule.max ? next : kNoState;
}

void Pushdown::Call(StateId state, FrameId frame, uint8_t byte) {
  for (const Program::Call& call : program_->Calls(state)) {
    const Program::RuleInfo& rule = program_->rule(call.rule);
    if (rule.first[byte]) pending_.push_back({rule.order, call.rule, {call.to, frame}, call.tail});
  }
}

// Enters the called rules in the order in which callers come before the rules that they call first. Therefore
// all callers of a rule are known when it is entered, and it is entered only once.
void Pushdown::EnterCalls(uint8_t byte, Kernel& to) {
  while (!pending_.empty()) {
    std::sort(pending_.begin(), pending_.end(),
              [](const Pending& a, const Pending& b) { return a.order > b.order; });
    size_t begin = pending_.size() - 1;
    const RuleId rule = pending_[begin].rule;
    while (begin > 0 && pending_[begin - 1].rule == rule) --begin;
    const FrameId frame = FrameOf(begin, pending_.size());
    pending_.resize(begin);
    NUMOE_DCHECK(frame == kBase || static_cast<size_t>(frame) < frames_.size());
    const StateId start = program_->rule(rule).start;
    const StateId next = program_->Next(start, byte);
    if (next != kNoState) AddThread(to, {next, frame});
    Call(start, frame, byte);
  }
}

// Returns the frame of a rule that pending_[begin, end) call.
FrameId Pushdown::FrameOf(size_t begin, size_t end) {
  NUMOE_DCHECK(begin < end && end <= pending_.size());
  if (end - begin == 1 && pending_[begin].tail) return pending_[begin].parent.frame;
  absl::InlinedVector<Thread, 4> parents;
  for (size_t i = begin; i < end; ++i) {
    const Pending& call = pending_[i];
    if (!call.tail) {
      parents.push_back(call.parent);
    } else if (call.parent.frame == kBase) {
      parents.push_back({kNoState, kBase});
    } else {
      const absl::Span<const Thread> grand = frames_.Parents(call.parent.frame);
      parents.insert(parents.end(), grand.begin(), grand.end());
    }
  }
  std::sort(parents.begin(), parents.end(), [](const Thread& a, const Thread& b) {
    return a.frame < b.frame || (a.frame == b.frame && a.state < b.state);
  });
  parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
  if (parents.size() == 1 && parents[0].state == kNoState) return kBase;
  return frames_.Intern(parents);
}

// Adds the threads after the calls of rules that have ended; the list grows while it is walked. Threads that
// could do nothing but return are dropped.
void Pushdown::ReturnFinished(Kernel& to) {
  size_t kept = 0;
  for (size_t i = 0; i < to.threads.size() && i <= limits::kGrammarThreadsMax; ++i) {
    const Thread thread = to.threads[i];
    if (!program_->IsFinal(thread.state)) continue;
    if (thread.frame == kBase) {
      to.reached_base = true;
      continue;
    }
    for (const Thread& parent : frames_.Parents(thread.frame)) {
      if (parent.state == kNoState) {
        to.reached_base = true;
      } else {
        AddThread(to, parent);
      }
    }
  }
  steps_ += to.threads.size() * (1 + to.threads.size() / 64);  // AddThread searches the list
  if (to.threads.size() > limits::kGrammarThreadsMax) {
    overflowed_ = true;
    to.Clear();
    return;
  }
  for (const Thread& thread : to.threads)
    if (!program_->IsLast(thread.state)) to.threads[kept++] = thread;
  NUMOE_DCHECK_LE(kept, to.threads.size());
  to.threads.resize(kept);
}

void Pushdown::Return(FrameId frame, Kernel& to) {
  NUMOE_DCHECK(frame != kBase);
  to.Clear();
  for (const Thread& parent : frames_.Parents(frame)) {
    if (parent.state == kNoState) {
      to.reached_base = true;
    } else {
      AddThread(to, parent);
    }
  }
  ReturnFinished(to);
}

ByteSet Pushdown::NextBytes(const Kernel& kernel) const {
  ByteSet bytes;
  for (const Thread& thread : kernel.threads) {
    int32_t count = 0;
    for (unsigned b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      const StateId next = program_->IsCounting(thread.state) ? NextCounting(thread, byte, count)
                                                              : program_->Next(thread.state, byte);
      if (next != kNoState) bytes.set(b);
    }
    for (const Program::Call& call : program_->Calls(thread.state)) bytes |= program_->rule(call.rule).first;
  }
  return bytes;
}

}  // namespace numoe::text::grammar
