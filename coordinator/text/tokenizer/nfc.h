// Unicode normalisation form C. A text that is already in that form is only read.
//
// Only parts that may change are passed to utf8proc: runs of characters that normalisation affects, and the
// character before each run. The set of these characters is computed from utf8proc's own data on first use.
// Thread-safe. Source: https://www.unicode.org/reports/tr15/ (sections 9 and 9.1).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace numoe::text {

/// A text has at most this multiple of the bytes of its normal form. The largest ratio of any character is
/// 3.5: U+1FBE, U+0308 and U+0301, which are 7 bytes, compose to U+0390, which is 2 bytes. The test checks
/// all characters.
inline constexpr size_t kNfcShrinkMax = 4;

/// Returns `text` if it is in normal form, otherwise its normal form, which is stored in `buffer`. REQUIRES:
/// `text` is valid UTF-8.
std::string_view Nfc(std::string_view text, std::string& buffer);

}  // namespace numoe::text
