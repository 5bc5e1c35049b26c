// CodepointSet: a set of Unicode scalar values, and its translation into UTF-8.
//
// Grammars are about characters, but the automaton reads bytes. Therefore a character class is translated
// into a few sequences of byte ranges that match exactly the UTF-8 of its members. No set contains surrogates
// (U+D800..U+DFFF). A value type without errors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace numoe::text::grammar {

inline constexpr uint32_t kCodepointMax = 0x10FFFF;

struct CodepointRange {
  uint32_t low = 0;
  uint32_t high = 0;  // inclusive
  bool operator==(const CodepointRange&) const = default;
};

class CodepointSet {
 public:
  CodepointSet() = default;
  CodepointSet(std::initializer_list<CodepointRange> ranges) : CodepointSet(std::vector(ranges)) {}
  explicit CodepointSet(std::vector<CodepointRange> ranges);
  static CodepointSet All() { return {{0, kCodepointMax}}; }

  CodepointSet Or(const CodepointSet& other) const;
  CodepointSet And(const CodepointSet& other) const;
  CodepointSet Minus(const CodepointSet& other) const { return And(other.Complement()); }
  CodepointSet Complement() const;

  bool Contains(uint32_t codepoint) const;
  bool empty() const { return ranges_.empty(); }
  /// Sorted, disjoint, not adjacent.
  const std::vector<CodepointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodepointRange> ranges_;
};

struct ByteRange {
  uint8_t low = 0;
  uint8_t high = 0;  // inclusive
};

/// Calls `sequence` with 1 to 4 byte ranges for each part of `set`; together they match exactly its UTF-8.
void ForEachUtf8Sequence(const CodepointSet& set,
                         absl::FunctionRef<void(const std::vector<ByteRange>&)> sequence);

std::string EncodeUtf8(uint32_t codepoint);

/// Returns the code point at `at` and moves `at` after it. REQUIRES: at < text.size(), `text` is valid UTF-8.
uint32_t DecodeUtf8(std::string_view text, size_t& at);

}  // namespace numoe::text::grammar
