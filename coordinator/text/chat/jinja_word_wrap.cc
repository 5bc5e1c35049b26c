#include "coordinator/text/chat/jinja_word_wrap.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

using Points = std::vector<int32_t>;

bool IsBreakingSpace(int32_t point) { return point == ' ' || (point >= '\t' && point <= '\r'); }
bool IsLetterOfWord(int32_t point) {
  return IsWord(point) && point != '_' && !IsKindOfText(CodePointText(point), "isdecimal").value_or(false);
}
bool EndsWordBeforeDash(int32_t point) {
  return IsWord(point) || (point < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(point)) !=
                                               std::string_view::npos);
}

class Chunker {
 public:
  explicit Chunker(const Points& text) : text_(text) {}

  // Returns the end of the chunk that begins at `begin`. A chunk is white space, a word or a part of one, or
  // a dash.
  size_t End(size_t begin, bool break_on_hyphens) const {
    NUMOE_DCHECK_LT(begin, text_.size());
    size_t end = begin;
    const bool space = IsBreakingSpace(text_[begin]);
    if (space || !break_on_hyphens) {
      while (end < text_.size() && IsBreakingSpace(text_[end]) == space) ++end;
      return end;
    }
    if (const size_t dash = DashEnd(begin); dash > begin && begin > 0 && EndsWordBeforeDash(text_[begin - 1]))
      return dash;
    for (end = begin + 1; end < text_.size() && !IsBreakingSpace(text_[end]); ++end) {
      if (HyphenParts(end)) return end + 1;
      if (EndsWordBeforeDash(text_[end - 1]) && DashEnd(end) > end) return end;
    }
    return end;
  }

 private:
  bool LetterAt(size_t at) const { return at < text_.size() && IsLetterOfWord(text_[at]); }
  bool HyphenAt(size_t at) const { return at < text_.size() && text_[at] == '-'; }

  // Returns whether a word may be broken at the hyphen at `at`, which needs letters on both sides.
  bool HyphenParts(size_t at) const {
    if (!HyphenAt(at) || at < 2 || !LetterAt(at - 1)) return false;
    const bool before = LetterAt(at - 2) || (at >= 3 && HyphenAt(at - 2) && LetterAt(at - 3));
    return before && LetterAt(at + 1) && (LetterAt(at + 2) || (HyphenAt(at + 2) && LetterAt(at + 3)));
  }
  // Returns the end of a dash at `at`, which is two or more hyphens followed by a word; `at` if there is
  // none.
  size_t DashEnd(size_t at) const {
    size_t end = at;
    while (HyphenAt(end)) ++end;
    return end >= at + 2 && end < text_.size() && IsWord(text_[end]) ? end : at;
  }

  const Points& text_;
};

bool IsSpaceOnly(const Points& chunk) {
  return std::all_of(chunk.begin(), chunk.end(), [](int32_t p) { return SpaceLength(CodePointText(p)) > 0; });
}

// Moves the part of the first chunk that fits to the line, or the whole chunk if long words are not broken.
void PlaceLongWord(std::deque<Points>& chunks, std::vector<Points>& line, size_t length,
                   const WrapStyle& style) {
  Points& chunk = chunks.front();
  if (!style.break_long_words) {
    if (!line.empty()) return;
    line.push_back(std::move(chunk));
    chunks.pop_front();
    return;
  }
  NUMOE_DCHECK_LE(length, static_cast<size_t>(style.width));
  const auto left = static_cast<size_t>(style.width) - length;
  size_t end = left;
  if (style.break_on_hyphens && chunk.size() > left) {
    size_t hyphen = left;
    while (hyphen > 0 && chunk[hyphen - 1] != '-') --hyphen;
    const bool word =
        std::any_of(chunk.begin(), chunk.begin() + static_cast<int64_t>(hyphen > 0 ? hyphen - 1 : 0),
                    [](int32_t p) { return p != '-'; });
    if (hyphen > 1 && word) end = hyphen;
  }
  const auto cut = chunk.begin() + static_cast<int64_t>(std::min(end, chunk.size()));
  line.emplace_back(chunk.begin(), cut);
  chunk.erase(chunk.begin(), cut);
}

}  // namespace

std::vector<std::string> WrapWords(std::string_view text, const WrapStyle& style) {
  NUMOE_CHECK_GE(style.width, 1);
  Points points;
  ForEachCodePoint(text, [&](int32_t point, std::string_view) { points.push_back(point); });
  std::deque<Points> chunks;
  for (size_t at = 0; at < points.size();) {
    const size_t end = Chunker(points).End(at, style.break_on_hyphens);
    NUMOE_DCHECK(end > at && end <= points.size());
    chunks.emplace_back(points.begin() + static_cast<int64_t>(at),
                        points.begin() + static_cast<int64_t>(end));
    at = end;
  }
  const auto width = static_cast<size_t>(style.width);
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    if (!lines.empty() && IsSpaceOnly(chunks.front())) chunks.pop_front();
    std::vector<Points> line;
    size_t length = 0;
    for (; !chunks.empty() && length + chunks.front().size() <= width; chunks.pop_front()) {
      length += chunks.front().size();
      line.push_back(std::move(chunks.front()));
    }
    if (!chunks.empty() && chunks.front().size() > width) PlaceLongWord(chunks, line, length, style);
    if (!line.empty() && IsSpaceOnly(line.back())) line.pop_back();
    if (line.empty()) continue;
    std::string out;
    for (const Points& chunk : line) {
      for (const int32_t point : chunk) out += CodePointText(point);
    }
    lines.push_back(std::move(out));
  }
  return lines;
}

}  // namespace numoe::text::jinja
