// Letter case, kinds of characters and white space, as Python's str has them.
//
// Case mapping is Unicode's, with the letters that map to several (special_casing.h); utf8proc holds the
// tables. isnumeric does not know the ideographs that stand for numbers. Text that is no UTF-8 is taken byte
// by byte. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace numoe::text::jinja {

/// Calls `visit(point, bytes)` for every code point, and for every byte of what is no UTF-8 with a number
/// beyond them.
void ForEachCodePoint(std::string_view text, absl::FunctionRef<void(int32_t, std::string_view)> visit);
/// UTF-8; the byte itself for what ForEachCodePoint gave for one, otherwise the replacement character.
std::string CodePointText(int32_t point);

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
/// First letter of every word upper, the rest lower.
std::string Title(std::string_view text);
/// First letter upper, the rest lower.
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);
bool IsLower(std::string_view text);
bool IsUpper(std::string_view text);
/// Whether repr() leaves it as it is.
bool IsPrintable(int32_t point);
/// Letters, numbers and the underscore: \w of Python's regular expressions.
bool IsWord(int32_t point);
/// The method `name` of str (isalpha, isdigit, ...); nullopt where it is none of these.
std::optional<bool> IsKindOfText(std::string_view text, std::string_view name);

/// Bytes of the white space (Python's str.isspace) that `text` begins with: of one character, 0 if none.
size_t SpaceLength(std::string_view text);
/// Python's strip, lstrip, rstrip.
std::string_view StripSpace(std::string_view text, bool left, bool right);

}  // namespace numoe::text::jinja
