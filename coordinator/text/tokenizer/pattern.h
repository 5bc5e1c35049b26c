// Pre-tokenisation patterns: regular expressions that divide text into the pieces in which bytes are merged.
//
// They are matched by PCRE2 with UTF and Unicode properties, with its JIT if the system allows that. Since
// expressions are written for Oniguruma or Rust, \s is translated to Unicode's White_Space, and nested or
// intersected classes, which PCRE2 would misread, are refused. Letters that PCRE2's Unicode 14 does not have
// yet count as symbols, except Han in Kimi's pattern. A Pattern is immutable and thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace numoe::text {

class Pattern {
 public:
  /// INVALID_ARGUMENT gives the position and PCRE2's reason; UNIMPLEMENTED names the unsupported syntax.
  static absl::StatusOr<Pattern> Compile(const std::string& expression);

  /// Calls `piece` for every match and every text between matches, in order. REQUIRES: `text` is valid UTF-8.
  void Split(std::string_view text, absl::FunctionRef<void(std::string_view)> piece) const;

 private:
  std::shared_ptr<void> code_;
  bool jit_ = false;
};

/// Kimi's pattern: runs of Han, words divided at case changes, up to three digits, punctuation, white space.
extern const char kKimiPattern[];

}  // namespace numoe::text
