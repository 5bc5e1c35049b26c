#include "coordinator/text/grammar/repeat_count.h"

#include <fmt/format.h>

#include "common/base/check.h"

namespace numoe::text::grammar {

absl::StatusOr<std::optional<int>> TakeRepeatCount(std::string_view text, size_t& at) {
  NUMOE_DCHECK_LE(at, text.size());
  const size_t begin = at;
  int count = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    count = count * 10 + (text[at] - '0');
    if (count > kRepeatMax)
      return absl::InvalidArgumentError(
          fmt::format("a repetition of more than {}, the largest count", kRepeatMax));
  }
  if (at == begin) return std::nullopt;
  return count;
}

}  // namespace numoe::text::grammar
