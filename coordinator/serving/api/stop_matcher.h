// StopMatcher: finds stop strings and patterns in text that arrives in pieces, and never releases a part of
// one.
//
// Text that could be the beginning of a stop is held back until the next piece decides. Of several stops, the
// one that is complete first counts; of those that are complete at the same byte, the one that begins first.
// Each answer has its own object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/grammar/pattern_search.h"

namespace numoe::serving {

class StopMatcher {
 public:
  /// `include_stop`: the stop string is released as well.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false,
                       const std::vector<text::StopPattern>& patterns = {});

  /// Returns the text that may be released. When stopped() becomes true, that is the text before the stop;
  /// later calls return nothing.
  std::string Push(std::string_view piece);
  /// Returns the text that was held back, at the end of the answer or before a part that stops cannot extend
  /// into.
  std::string Flush();
  bool stopped() const { return stopped_; }
  /// The stop that was found; a pattern as the request has it. REQUIRES: stopped().
  const std::string& stop() const { return stop_; }

 private:
  struct Found {
    size_t begin = 0;
    size_t end = std::string::npos;  // npos if nothing was found
    std::string stop;
  };
  void FindString(Found& found) const;
  void FindPattern(std::string_view piece, Found& found);
  size_t HeldBack() const;

  const std::vector<std::string> stops_;
  const bool include_stop_;
  std::vector<text::PatternSearch> searches_;
  std::string held_;
  size_t gone_ = 0;  // bytes before held_ that the searches have read
  std::string stop_;
  bool stopped_ = false;
};

}  // namespace numoe::serving
