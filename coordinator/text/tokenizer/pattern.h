// Pre-tokenisation patterns: regular expressions that cut text into the pieces that byte merging works on.
//
// PCRE2 with UTF and Unicode properties, JIT where the system allows it. Expressions are written for
// Oniguruma or Rust: \s becomes Unicode's White_Space, and nested or intersected classes, which PCRE2 would
// misread, are refused. Letters newer than PCRE2's Unicode 14 count as symbols, but for Han in Kimi's
// pattern. A Pattern is immutable and thread-safe.
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
  /// InvalidArgument gives the position and PCRE2's reason; Unimplemented names what is refused.
  static absl::StatusOr<Pattern> Compile(const std::string& expression);

  /// Calls `piece` for every match and every stretch between matches, in order. REQUIRES: `text` is valid
  /// UTF-8.
  void Split(std::string_view text, absl::FunctionRef<void(std::string_view)> piece) const;

 private:
  std::shared_ptr<void> code_;
  bool jit_ = false;
};

/// Kimi's pattern: Han runs, words cut at case changes, digits by three, punctuation, white space.
extern const char kKimiPattern[];

}  // namespace numoe::text
