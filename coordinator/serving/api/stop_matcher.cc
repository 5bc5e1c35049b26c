#include "coordinator/serving/api/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace numoe::serving {

std::string StopMatcher::Push(std::string_view piece) {
  if (stopped_) return "";
  if (stops_.empty()) return std::string(piece);
  NUMOE_DCHECK(
      std::none_of(stops_.begin(), stops_.end(), [](const std::string& stop) { return stop.empty(); }));
  held_.append(piece);
  // The one that is complete first counts, so that the cutting into pieces changes nothing.
  size_t begin = 0, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > end) continue;
    begin = at + stop.size() == end ? std::min(begin, at) : at;
    end = at + stop.size();
  }
  if (end != std::string::npos) {
    stopped_ = true;
    stop_ = held_.substr(begin, end - begin);
    return held_.substr(0, include_stop_ ? end : begin);
  }
  // The longest end of the text that begins some stop string stays back.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) keep = length;
    }
  }
  NUMOE_DCHECK_LE(keep, held_.size());
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::Flush() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace numoe::serving
