#include "coordinator/tokenizer/segment_encoder.h"

#include "coordinator/tokenizer/utf8.h"

namespace numoe {

void CutSpecials(absl::Span<const TextSegment> segments, const SpecialTokens& specials,
                 absl::FunctionRef<void(std::string_view)> text, absl::FunctionRef<void(TokenId)> special) {
  std::string joined;
  std::vector<bool> trusted;
  for (const TextSegment& segment : segments) {
    joined += ReplaceInvalidUtf8(segment.text);
    trusted.resize(joined.size(), segment.trusted);
  }
  size_t done = 0;
  while (const auto match = specials.Find(joined, trusted, done)) {
    if (match->begin > done) text(std::string_view(joined).substr(done, match->begin - done));
    special(match->id);
    done = match->begin + match->length;
  }
  if (done < joined.size()) text(std::string_view(joined).substr(done));
}

}  // namespace numoe
