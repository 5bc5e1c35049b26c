// Pushdown: runs a Program over bytes and follows all derivations of the text at the same time.
//
// A Thread is a state and a frame. A Kernel is the set of threads after a byte; rules that ended there have
// already returned to their callers. A Frame has the places to which a finished rule returns: usually one
// (state, frame), but several if derivations were merged (a graph-structured stack). Therefore the work for a
// byte is polynomial, however ambiguous the grammar is. Frames are interned in an arena and never change;
// removing the newest ones (Truncate) undoes everything that was read since. kBase is the frame at the
// bottom; a return to it is recorded in the kernel. A copy of a Pushdown copies the arena. Belongs to one
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "coordinator/text/grammar/program.h"

namespace numoe::text::grammar {

using FrameId = int32_t;
inline constexpr FrameId kBase = 0;

struct Thread {
  StateId state = 0;
  FrameId frame = kBase;
  int32_t count = 0;  // characters that have begun, in a string whose length has bounds
  bool operator==(const Thread&) const = default;
};

struct Kernel {
  absl::InlinedVector<Thread, 4> threads;
  bool reached_base = false;  // at least one derivation ends exactly here

  bool alive() const { return reached_base || !threads.empty(); }
  void Clear() {
    threads.clear();
    reached_base = false;
  }
};

class Frames {
 public:
  /// Returns the frame with these parents; equal parents have the same frame. The parent {kNoState, kBase}
  /// means a return to kBase. REQUIRES: `parents` are sorted, distinct and not empty.
  FrameId Intern(const absl::InlinedVector<Thread, 4>& parents);
  absl::Span<const Thread> Parents(FrameId frame) const {
    const Entry& entry = entries_[static_cast<size_t>(frame)];
    return {parents_.data() + entry.begin, entry.count};
  }
  size_t size() const { return entries_.size(); }
  /// Removes all frames except the oldest `size`.
  void Truncate(size_t size);

 private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t count = 0;
    FrameId newest_child = -1;  // frames whose first parent is this one
    FrameId older_sibling = -1;
  };
  std::vector<Entry> entries_ = {Entry{}};  // kBase
  std::vector<Thread> parents_;
};

class Pushdown {
 public:
  explicit Pushdown(const Program* program) : program_(program) {}

  /// Returns the kernel before the first byte.
  Kernel Start() const;
  /// Sets `to` to the kernel after `byte`. With more than kGrammarThreadsMax threads it is dead, and
  /// overflowed() is true. REQUIRES: `to` and `from` are different objects.
  void Step(const Kernel& from, uint8_t byte, Kernel& to);
  /// Sets `to` to the kernel after a return from a rule with `frame`. REQUIRES: frame != kBase.
  void Return(FrameId frame, Kernel& to);
  /// Returns the bytes after which Step leaves the kernel alive.
  ByteSet NextBytes(const Kernel& kernel) const;

  Frames& frames() { return frames_; }
  const Frames& frames() const { return frames_; }
  const Program& program() const { return *program_; }
  /// Whether a Step found more derivations than are followed.
  bool overflowed() const { return overflowed_; }
  size_t steps() const { return steps_; }

 private:
  struct Pending {
    int32_t order;
    RuleId rule;
    Thread parent;  // the caller's thread after the call
    bool tail;
  };
  StateId NextCounting(const Thread& thread, uint8_t byte, int32_t& count) const;
  void Call(StateId state, FrameId frame, uint8_t byte);
  void EnterCalls(uint8_t byte, Kernel& to);
  FrameId FrameOf(size_t begin, size_t end);
  void ReturnFinished(Kernel& to);
  static void AddThread(Kernel& kernel, Thread thread);

  const Program* program_;
  Frames frames_;
  std::vector<Pending>
      pending_;  // scratch memory of Step: the calls that are not entered yet, sorted by `order`
  size_t steps_ = 0;
  bool overflowed_ = false;
};

}  // namespace numoe::text::grammar
