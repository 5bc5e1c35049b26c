// Pushdown: runs a Program over bytes, following all derivations of the text read so far at once.
//
// A Thread is a state and a frame; a Kernel is the set of threads after a byte, with everything that ended
// there already returned to its callers. A Frame is what a finished rule returns to: usually one
// (state, frame), several where derivations met (a graph-structured stack), so the work for a byte is
// polynomial however ambiguous the grammar is. Frames are interned in an arena and never change; forgetting
// the newest ones (Truncate) takes back whatever was read since. kBase is the frame below everything:
// returning to it is recorded in the kernel. Copying copies the arena. One thread.
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
  int32_t count = 0;  // characters begun, in a string whose length has bounds
  bool operator==(const Thread&) const = default;
};

struct Kernel {
  absl::InlinedVector<Thread, 4> threads;
  bool reached_base = false;  // one derivation ends exactly here

  bool alive() const { return reached_base || !threads.empty(); }
  void Clear() {
    threads.clear();
    reached_base = false;
  }
};

class Frames {
 public:
  /// The same frame for the same parents. A state of kNoState means: returns on to the frame's own parents,
  /// and is used with kBase only. REQUIRES: parents sorted, distinct, not empty.
  FrameId Intern(const absl::InlinedVector<Thread, 4>& parents);
  absl::Span<const Thread> Parents(FrameId frame) const {
    const Entry& entry = entries_[static_cast<size_t>(frame)];
    return {parents_.data() + entry.begin, entry.count};
  }
  size_t size() const { return entries_.size(); }
  /// Forgets all frames but the oldest `size`.
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

  /// Before the first byte.
  Kernel Start() const;
  /// After `byte`. `to` and `from` are different objects. More than kGrammarThreadsMax threads: dead, and
  /// overflowed().
  void Step(const Kernel& from, uint8_t byte, Kernel& to);
  /// Where `frame` returns to; REQUIRES: frame != kBase.
  void Return(FrameId frame, Kernel& to);
  /// Bytes that Step would survive.
  ByteSet NextBytes(const Kernel& kernel) const;

  Frames& frames() { return frames_; }
  const Frames& frames() const { return frames_; }
  const Program& program() const { return *program_; }
  /// Some Step met more derivations than are followed.
  bool overflowed() const { return overflowed_; }
  size_t steps() const { return steps_; }

 private:
  struct Pending {
    int32_t order;
    RuleId rule;
    Thread parent;  // after the call
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
  std::vector<Pending> pending_;  // scratch: sorted by order, not yet entered ones last
  size_t steps_ = 0;
  bool overflowed_ = false;
};

}  // namespace numoe::text::grammar
