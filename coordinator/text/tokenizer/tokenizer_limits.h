// Limits of vocabularies beyond that of their size (kVocabularyMax in common/weights/weights_limits.h).
//
// Constants only, with the unit in the name: bytes. A vocabulary beyond one is refused with an error that
// names the token by its id.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- model -----------------------------------------------------------------------------------------------
// The longest tokens of published vocabularies are runs of 128 or 256 characters.
inline constexpr size_t kTokenBytesMax = 4'096;

}  // namespace numoe::limits
