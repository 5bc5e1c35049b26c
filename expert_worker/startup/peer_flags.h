// AddPeerFlags: accepts the worker's flags under the names that they have in KTransformers, SGLang and
// llama.cpp.
//
// A flag of these programs that means the same as one of the worker is an alias of it. A flag that has no
// meaning here is refused, and the error says what to use instead. Sources: the kt flags of KTransformers in
// SGLang, and llama-server --help (August 2026). Called on the main thread, before Parse.
#pragma once

#include "absl/status/status.h"
#include "common/base/flags.h"

namespace numoe::worker {

/// REQUIRES: `flags` has the worker's own flags.
void AddPeerFlags(Flags& flags);

/// Returns INVALID_ARGUMENT if an alias has another meaning in combination with the given flags. REQUIRES:
/// Parse has returned.
absl::Status CheckPeerFlags(const Flags& flags, bool supervise);

}  // namespace numoe::worker
