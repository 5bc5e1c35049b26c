// PatternSearch: finds the first match of a regular expression in text that comes byte by byte.
//
// The match that ends first counts, and of those that end together the one that begins first, so that the
// cutting into pieces changes nothing. Every place where a match could have begun is followed at once, places
// in one state of the machine as one: time is linear in the text and bounded by the states for each byte,
// whatever the pattern. A StopPattern is immutable and thread-safe; a search belongs to its text.
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

  /// The syntax of regex.h but for anchors, because the text has no end yet. INVALID_ARGUMENT also where the
  /// empty text matches, and would at once.
  static absl::StatusOr<StopPattern> Compile(std::string source);
};

class PatternSearch {
 public:
  /// REQUIRES: the pattern was compiled.
  explicit PatternSearch(StopPattern pattern);

  /// One byte more; if a match ends behind it, where it began.
  std::optional<int64_t> Read(uint8_t byte);
  /// Nothing before it can be part of a match: the bytes read so far, if no match has begun.
  int64_t open_from() const { return threads_.empty() ? position_ : threads_.front().begin; }
  const std::string& source() const { return pattern_.source; }
  /// The text begins anew, at position 0.
  void Restart();

 private:
  struct Thread {
    int32_t state = 0;
    int64_t begin = 0;
  };

  const StopPattern pattern_;
  std::vector<Thread> threads_, next_;  // by where they began
  std::vector<int64_t> reached_;        // [state] the position at which a thread got there last
  int64_t position_ = 0;                // bytes read
};

}  // namespace numoe::text
