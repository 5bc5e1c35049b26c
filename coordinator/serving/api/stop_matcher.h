// Finds stop strings and patterns in text that comes in pieces, without ever letting a part of one out.
//
// Text that could be the beginning of a stop is held back until the next piece decides. Of several stops the
// one that is complete first counts, and of those that are complete together the one that begins first. One
// per generation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/grammar/pattern_search.h"

namespace numoe::serving {

class StopMatcher {
 public:
  /// `include_stop`: the stop string goes out too.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false,
                       const std::vector<text::StopPattern>& patterns = {});

  /// Text that may go out now. After stopped() turned true: the text before the stop, then nothing more.
  std::string Push(std::string_view piece);
  /// What was held back at the end of the generation, or before what no stop reaches across.
  std::string Flush();
  bool stopped() const { return stopped_; }
  /// The one that was found, a pattern as the request has it. REQUIRES: stopped().
  const std::string& stop() const { return stop_; }

 private:
  struct Found {
    size_t begin = 0;
    size_t end = std::string::npos;  // npos: none
    std::string stop;
  };
  void FindString(Found& found) const;
  void FindPattern(std::string_view piece, Found& found);
  size_t HeldBack() const;

  const std::vector<std::string> stops_;
  const bool include_stop_;
  std::vector<text::PatternSearch> searches_;
  std::string held_;
  size_t gone_ = 0;  // bytes that the searches read before held_
  std::string stop_;
  bool stopped_ = false;
};

}  // namespace numoe::serving
