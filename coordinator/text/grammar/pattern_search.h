// PatternSearch: finds the first match of a regular expression in text that comes byte by byte.
//
// The match that ends first counts; if several end at the same place, the one that begins first. Therefore it
// does not matter how the text is divided into pieces. All places where a match could have begun are followed
// at the same time, and those that lead to the same state of the machine are merged: the time is linear in
// the text, with at most one step for each state and byte, whatever the pattern. A StopPattern is immutable
// and thread-safe; a search belongs to its text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text {

struct StopPattern {
  std::string source;
  std::shared_ptr<const grammar::Dfa> machine;

  /// Compiles the syntax of regex.h except anchors, because the text has no end yet. A pattern that matches
  /// the empty text is INVALID_ARGUMENT, because it would match before the first byte.
  static absl::StatusOr<StopPattern> Compile(std::string source);
};

class PatternSearch {
 public:
  /// REQUIRES: the pattern was compiled.
  explicit PatternSearch(StopPattern pattern);

  /// Reads the next byte. If a match ends after it, returns the position at which the match began.
  std::optional<int64_t> Read(uint8_t byte);
  /// The position before which no byte can be part of a match; the number of bytes read if no match has
  /// begun.
  int64_t open_from() const { return threads_.empty() ? position_ : threads_.front().begin; }
  const std::string& source() const { return pattern_.source; }
  /// Begins another text at position 0.
  void Restart();

 private:
  struct Thread {
    int32_t state = 0;
    int64_t begin = 0;
  };

  const StopPattern pattern_;
  std::vector<Thread> threads_, next_;  // sorted by where they began
  std::vector<int64_t> reached_;        // [state] the position at which a thread last reached it
  int64_t position_ = 0;                // the number of bytes read
};

}  // namespace numoe::text
