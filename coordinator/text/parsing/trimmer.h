// Trimmer: removes white space at both ends of a text that comes in pieces.
//
// White space beside a mark belongs to the format, not to the text. Characters that may be at the end are
// held back until more text follows. A trimmer processes one text at a time; Restart begins the next.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace numoe::text {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

class Trimmer {
 public:
  /// `end` has the characters that are removed at the end of the text.
  explicit Trimmer(std::string_view end = kWhiteSpace) : end_(end) {}

  void Restart(bool keep_leading) {
    held_.clear();
    begun_ = false;
    keep_leading_ = keep_leading;
  }
  /// Takes the next piece and returns the text that can be passed on now. With `hold_end`, characters that
  /// may be at the end are held back.
  std::string Push(std::string_view text, bool hold_end);
  /// The text ends here without a mark. Returns what was held back, except leading white space to be removed.
  std::string Flush() { return begun_ || keep_leading_ ? std::exchange(held_, {}) : std::string(); }
  /// Whether a character other than white space has come.
  bool begun() const { return begun_; }
  /// Whether only leading white space has come, which is removed.
  bool drops_leading() const { return !begun_ && !keep_leading_; }

 private:
  const std::string_view end_;
  std::string held_;
  bool begun_ = false;
  bool keep_leading_ = false;
};

/// Returns `text` without white space at its ends.
std::string_view Trimmed(std::string_view text);

}  // namespace numoe::text
