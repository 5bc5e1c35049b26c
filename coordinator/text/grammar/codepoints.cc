#include "coordinator/text/grammar/codepoints.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::text::grammar {
namespace {

constexpr uint32_t kSurrogateLow = 0xD800, kSurrogateHigh = 0xDFFF;

// Divides a range of one encoded length until each part is a sequence of byte ranges: fixed bytes, then one
// range, then bytes from 80 to BF.
void SplitEncoded(uint32_t low, uint32_t high, int length,
                  absl::FunctionRef<void(const std::vector<ByteRange>&)> sequence) {
  NUMOE_DCHECK(low <= high && 1 <= length && length <= 4);
  for (int i = 1; i < length; ++i) {
    const uint32_t tail = (1u << (6 * i)) - 1;
    if ((low & ~tail) == (high & ~tail)) continue;
    if ((low & tail) != 0) {
      SplitEncoded(low, low | tail, length, sequence);
      SplitEncoded((low | tail) + 1, high, length, sequence);
      return;
    }
    if ((high & tail) != tail) {
      SplitEncoded(low, (high & ~tail) - 1, length, sequence);
      SplitEncoded(high & ~tail, high, length, sequence);
      return;
    }
  }
  const std::string first = EncodeUtf8(low), last = EncodeUtf8(high);
  NUMOE_DCHECK(first.size() == last.size() && first.size() == static_cast<size_t>(length));
  std::vector<ByteRange> bytes;
  for (size_t i = 0; i < first.size(); ++i)
    bytes.push_back({static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])});
  sequence(bytes);
}

}  // namespace

CodepointSet::CodepointSet(std::vector<CodepointRange> ranges) {
  std::vector<CodepointRange> scalar;
  for (const CodepointRange& r : ranges) {
    if (r.low < kSurrogateLow) scalar.push_back({r.low, std::min(r.high, kSurrogateLow - 1)});
    if (r.high > kSurrogateHigh) scalar.push_back({std::max(r.low, kSurrogateHigh + 1), r.high});
  }
  std::sort(scalar.begin(), scalar.end(),
            [](const CodepointRange& a, const CodepointRange& b) { return a.low < b.low; });
  for (const CodepointRange& r : scalar) {
    if (r.low > r.high) continue;
    if (!ranges_.empty() && r.low <= ranges_.back().high + 1) {
      ranges_.back().high = std::max(ranges_.back().high, r.high);
    } else {
      ranges_.push_back(r);
    }
  }
}

CodepointSet CodepointSet::Or(const CodepointSet& other) const {
  std::vector<CodepointRange> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return CodepointSet(std::move(ranges));
}

CodepointSet CodepointSet::And(const CodepointSet& other) const {
  std::vector<CodepointRange> ranges;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const CodepointRange& a = ranges_[i];
    const CodepointRange& b = other.ranges_[j];
    if (std::max(a.low, b.low) <= std::min(a.high, b.high))
      ranges.push_back({std::max(a.low, b.low), std::min(a.high, b.high)});
    if (a.high < b.high) {
      ++i;
    } else {
      ++j;
    }
  }
  return CodepointSet(std::move(ranges));
}

CodepointSet CodepointSet::Complement() const {
  std::vector<CodepointRange> ranges;
  uint32_t next = 0;
  for (const CodepointRange& r : ranges_) {
    if (r.low > next) ranges.push_back({next, r.low - 1});
    next = r.high + 1;
  }
  if (next <= kCodepointMax) ranges.push_back({next, kCodepointMax});
  return CodepointSet(std::move(ranges));
}

bool CodepointSet::Contains(uint32_t codepoint) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), codepoint,
                                      [](uint32_t c, const CodepointRange& r) { return c < r.low; });
  return after != ranges_.begin() && codepoint <= std::prev(after)->high;
}

void ForEachUtf8Sequence(const CodepointSet& set,
                         absl::FunctionRef<void(const std::vector<ByteRange>&)> sequence) {
  constexpr CodepointRange kLengths[] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kCodepointMax}};
  for (const CodepointRange& r : set.ranges()) {
    for (int length = 1; length <= 4; ++length) {
      const uint32_t low = std::max(r.low, kLengths[length - 1].low);
      const uint32_t high = std::min(r.high, kLengths[length - 1].high);
      if (low <= high) SplitEncoded(low, high, length, sequence);
    }
  }
}

std::string EncodeUtf8(uint32_t codepoint) {
  NUMOE_DCHECK_LE(codepoint, kCodepointMax);
  const auto tail = [codepoint](int shift) {
    return static_cast<char>(0x80 | ((codepoint >> shift) & 0x3F));
  };
  if (codepoint < 0x80) return {static_cast<char>(codepoint)};
  if (codepoint < 0x800) return {static_cast<char>(0xC0 | (codepoint >> 6)), tail(0)};
  if (codepoint < 0x10000) return {static_cast<char>(0xE0 | (codepoint >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (codepoint >> 18)), tail(12), tail(6), tail(0)};
}

uint32_t DecodeUtf8(std::string_view text, size_t& at) {
  const auto first = static_cast<uint8_t>(text[at]);
  NUMOE_DCHECK(first < 0x80 || first >= 0xC2) << "a character begins here";
  const int length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  NUMOE_CHECK_LE(at + static_cast<size_t>(length), text.size());
  uint32_t codepoint = length == 1 ? first : first & (0xFFu >> (length + 1));
  for (int i = 1; i < length; ++i) codepoint = codepoint << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3F);
  at += static_cast<size_t>(length);
  return codepoint;
}

}  // namespace numoe::text::grammar
