#include "coordinator/http/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace numoe {

std::string StopMatcher::Push(std::string_view piece) {
  if (stopped_) return "";
  if (stops_.empty()) return std::string(piece);
  held_.append(piece);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, first);
  }
  // The longest end of the text that begins some stop string stays back.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) keep = length;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::Flush() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace numoe
