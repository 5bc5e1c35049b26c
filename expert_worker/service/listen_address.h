// The address that a worker listens on: HOST:PORT or unix:PATH.
//
// Loading takes minutes, so whether an address can be had is asked before. A socket file that nobody serves
// was left by a process that crashed, and is taken over; a file that is no socket is never touched. Who may
// connect to a socket is who may write to its file: our user, and with --shared-memory-group that group.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace numoe::worker {

/// INVALID_ARGUMENT, ALREADY_EXISTS or UNAVAILABLE names --listen, or --shared-memory-group where a socket
/// file cannot be given to `group`, and what is in the way. Binds for a moment, and leaves nothing behind.
absl::Status CheckListenAddress(const std::string& address, std::optional<gid_t> group = std::nullopt);
/// The same of HOST:PORT alone, as `flag` gives it; `also` is what else the flag takes, for the message.
absl::Status CheckPortAddress(const std::string& flag, const std::string& address, const char* also);
/// The path of a unix: address; "" for others.
std::string UnixPath(const std::string& address);
/// Removes the socket file at `path` if nobody serves it; the same errors.
absl::Status ClearUnixPath(const std::string& path);

/// While it lives, what this process makes is for its own user alone. One at a time, for the whole process.
class PrivateFiles {
 public:
  PrivateFiles();
  ~PrivateFiles();
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;

 private:
  const mode_t before_;
};
/// Lets processes of the group connect to the socket file at `path`, beside our own user, and nobody else.
/// INVALID_ARGUMENT names --shared-memory-group. REQUIRES: the file was made while there was a PrivateFiles.
absl::Status ShareSocket(const std::string& path, gid_t group);

}  // namespace numoe::worker
