// Unicode normalisation form C, at the speed of reading where a text is in that form already.
//
// Only what may change is handed to utf8proc: a character that normalisation knows about and the one before
// it. Which characters these are is computed from utf8proc's own data at first use. Thread-safe. Source:
// https://www.unicode.org/reports/tr15/ (sections 9 and 9.1).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace numoe::text {

/// A text has at most this many times the bytes of its normal form. The largest ratio of any character of a
/// normal form to the longest text that composes to it is 3.5 (U+0390 from U+1FBE, U+0308 and U+0301); the
/// test looks at all characters.
inline constexpr size_t kNfcShrinkMax = 4;

/// `text`, or its normal form held in `buffer` if that is another. REQUIRES: `text` is valid UTF-8.
std::string_view Nfc(std::string_view text, std::string& buffer);

}  // namespace numoe::text
