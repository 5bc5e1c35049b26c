// The address that a worker listens on: HOST:PORT or unix:PATH.
//
// Loading takes minutes, so whether an address can be had is asked before. A socket file that nobody serves
// was left by a process that crashed, and is taken over; a file that is no socket is never touched.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace numoe {

/// INVALID_ARGUMENT, ALREADY_EXISTS or UNAVAILABLE names --listen and what is in the way. Binds for a moment,
/// and leaves nothing behind.
absl::Status CheckListenAddress(const std::string& address);
/// The same of HOST:PORT alone, as `flag` gives it; `also` is what else the flag takes, for the message.
absl::Status CheckPortAddress(const std::string& flag, const std::string& address, const char* also);
/// The path of a unix: address; "" for others.
std::string UnixPath(const std::string& address);
/// Removes the socket file at `path` if nobody serves it; the same errors.
absl::Status ClearUnixPath(const std::string& path);

}  // namespace numoe
