// Finds stop strings in text that comes in pieces, without ever letting a part of one out.
//
// Text that could be the beginning of a stop string is held back until the next piece decides. Of several
// stop strings the one that is complete first counts. One per generation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace numoe::serving {

class StopMatcher {
 public:
  /// `include_stop`: the stop string goes out too.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false)
      : stops_(std::move(stops)), include_stop_(include_stop) {}

  /// Text that may go out now. After stopped() turned true: the text before the stop string, then nothing
  /// more.
  std::string Push(std::string_view piece);
  /// What was held back at the end of the generation.
  std::string Flush();
  bool stopped() const { return stopped_; }
  /// The one that was found. REQUIRES: stopped().
  const std::string& stop() const { return stop_; }

 private:
  const std::vector<std::string> stops_;
  const bool include_stop_;
  std::string held_;
  std::string stop_;
  bool stopped_ = false;
};

}  // namespace numoe::serving
