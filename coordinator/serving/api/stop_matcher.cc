#include "coordinator/serving/api/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace numoe::serving {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop,
                         const std::vector<text::StopPattern>& patterns)
    : stops_(std::move(stops)), include_stop_(include_stop) {
  for (const text::StopPattern& pattern : patterns) searches_.emplace_back(pattern);
}

std::string StopMatcher::Push(std::string_view piece) {
  if (stopped_) return "";
  if (stops_.empty() && searches_.empty()) return std::string(piece);
  NUMOE_DCHECK(
      std::none_of(stops_.begin(), stops_.end(), [](const std::string& stop) { return stop.empty(); }));
  held_.append(piece);
  // The stop that is complete first counts, so that the result does not depend on the division into pieces.
  Found found;
  FindString(found);
  FindPattern(piece, found);
  if (found.end != std::string::npos) {
    stopped_ = true;
    stop_ = std::move(found.stop);
    return held_.substr(0, include_stop_ ? found.end : found.begin);
  }
  const size_t keep = HeldBack();
  NUMOE_DCHECK_LE(keep, held_.size());
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  gone_ += out.size();
  return out;
}

void StopMatcher::FindString(Found& found) const {
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > found.end) continue;
    if (at + stop.size() == found.end && at >= found.begin) continue;
    found = {at, at + stop.size(), stop};
  }
}

void StopMatcher::FindPattern(std::string_view piece, Found& found) {
  for (text::PatternSearch& search : searches_) {
    for (size_t i = 0; i < piece.size(); ++i) {
      const std::optional<int64_t> begin = search.Read(static_cast<uint8_t>(piece[i]));
      if (!begin) continue;
      NUMOE_CHECK_GE(static_cast<size_t>(*begin), gone_) << "a part of a match was released";
      const size_t at = static_cast<size_t>(*begin) - gone_;
      const size_t end = held_.size() - piece.size() + i + 1;
      if (end < found.end || (end == found.end && at < found.begin)) found = {at, end, search.source()};
      break;
    }
  }
}

// The number of bytes at the end of the text that may be the beginning of a stop.
size_t StopMatcher::HeldBack() const {
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) keep = length;
    }
  }
  for (const text::PatternSearch& search : searches_)
    keep = std::max(keep, gone_ + held_.size() - static_cast<size_t>(search.open_from()));
  return keep;
}

std::string StopMatcher::Flush() {
  if (stopped_) return "";
  for (text::PatternSearch& search : searches_) search.Restart();
  gone_ = 0;
  return std::exchange(held_, {});
}

}  // namespace numoe::serving
