// Limits of vocabularies, in addition to that of their size (kVocabularyMax in
// common/weights/weights_limits.h).
//
// Only constants, with the unit (bytes) in the name. A vocabulary that exceeds one is refused with an error
// that gives the token's id.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- model -----------------------------------------------------------------------------------------------
// The longest tokens of published vocabularies are runs of 128 or 256 characters.
inline constexpr size_t kTokenBytesMax = 4'096;

}  // namespace numoe::limits
