// Trimmer: drops what stands at the two ends of a text that comes in pieces.
//
// White space next to a mark belongs to the format, not to the text. Characters that may turn out to be the
// end are held back until more text follows. One for each text; Restart begins the next.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace numoe::text {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

class Trimmer {
 public:
  /// `end`: characters that do not count at the end.
  explicit Trimmer(std::string_view end = kWhiteSpace) : end_(end) {}

  void Restart(bool keep_leading) {
    held_.clear();
    begun_ = false;
    keep_leading_ = keep_leading;
  }
  /// What may go out now.
  std::string Push(std::string_view text, bool hold_end);
  /// The text ends here without a mark: what was held back, unless it is leading white space to drop.
  std::string Flush() { return begun_ || keep_leading_ ? std::exchange(held_, {}) : std::string(); }
  /// Something other than white space has come.
  bool begun() const { return begun_; }
  /// Nothing but leading white space has come, and it is dropped.
  bool drops_leading() const { return !begun_ && !keep_leading_; }

 private:
  const std::string_view end_;
  std::string held_;
  bool begun_ = false;
  bool keep_leading_ = false;
};

/// Without white space at its ends.
std::string_view Trimmed(std::string_view text);

}  // namespace numoe::text
