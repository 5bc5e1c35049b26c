#include "coordinator/text/tokenizer/segment_encoder.h"

#include "common/base/check.h"
#include "coordinator/text/tokenizer/utf8.h"

namespace numoe::text {
namespace {

// Separates control tokens in parts of the joined text from the text between them.
struct Cutter {
  std::string_view joined;
  const SpecialTokens& specials;
  absl::FunctionRef<void(std::string_view)> text;
  absl::FunctionRef<void(TokenId)> special;
  size_t done = 0;

  void Flush(size_t end) {
    NUMOE_DCHECK(done <= end && end <= joined.size());
    if (end > done) text(joined.substr(done, end - done));
    done = end;
  }
  void CutTrusted(size_t begin, size_t end) {
    while (const auto match = specials.Find(joined.substr(0, end), begin)) {
      Flush(match->begin);
      NUMOE_DCHECK(match->length > 0 && match->begin + match->length <= end);
      special(match->id);
      done = begin = match->begin + match->length;
    }
  }
};

}  // namespace

void CutSpecials(absl::Span<const TextSegment> segments, const SpecialTokens& specials,
                 absl::FunctionRef<void(std::string_view)> text, absl::FunctionRef<void(TokenId)> special) {
  std::string joined;
  // The trusted parts of the text. A name may extend over several trusted segments, but not beyond such a
  // part.
  std::vector<std::pair<size_t, size_t>> trusted;
  for (const TextSegment& segment : segments) {
    const size_t begin = joined.size();
    AppendValidUtf8(segment.text, joined);
    if (!segment.trusted || joined.size() == begin) continue;
    if (!trusted.empty() && trusted.back().second == begin) {
      trusted.back().second = joined.size();
    } else {
      trusted.emplace_back(begin, joined.size());
    }
  }
  Cutter cutter{joined, specials, text, special};
  for (const auto& [begin, end] : trusted) cutter.CutTrusted(begin, end);
  cutter.Flush(joined.size());
  NUMOE_CHECK_EQ(cutter.done, joined.size());
}

}  // namespace numoe::text
