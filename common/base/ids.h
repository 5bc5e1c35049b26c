// The types of indexes and numbers that the whole project uses, each with one meaning.
//
// They are plain integers, because hot loops index arrays with them; the alias says what is counted.
#pragma once

#include <cstdint>

namespace numoe {

using TokenId = int32_t;     // index into the vocabulary; negative never occurs in a sequence
using KvBlockId = int32_t;   // index of a block of KV cache rows
using LayerId = int32_t;     // decoder layer, 0-based, as in the checkpoint's tensor names
using ExpertId = int32_t;    // routed expert within a layer, 0-based, or kNoExpert in a token's selection
using WorkerId = int32_t;    // expert worker, 0-based: --worker-index
using SequenceId = int64_t;  // one generation stream, unique in a coordinator's life

inline constexpr ExpertId kNoExpert = -1;  // nothing to compute here: padding, or computed elsewhere

}  // namespace numoe
