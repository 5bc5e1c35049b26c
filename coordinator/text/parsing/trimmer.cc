#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {

std::string Trimmer::Push(std::string_view text, bool hold_end) {
  if (!begun_) {
    const size_t first = text.find_first_not_of(kWhiteSpace);
    if (first == std::string_view::npos) {
      held_ += text;
      return "";
    }
    begun_ = true;
    if (!keep_leading_) {
      held_.clear();
      text.remove_prefix(first);
    }
  }
  if (!hold_end) return std::exchange(held_, {}).append(text);
  const size_t last = text.find_last_not_of(end_);
  if (last == std::string_view::npos) {
    held_ += text;
    return "";
  }
  std::string out = std::exchange(held_, std::string(text.substr(last + 1)));
  return out.append(text.substr(0, last + 1));
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

}  // namespace numoe::text
