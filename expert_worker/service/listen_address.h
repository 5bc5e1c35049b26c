// The address that a worker listens on: HOST:PORT or unix:PATH.
//
// Loading takes minutes, so the address is checked before it. A socket file that no process serves was left
// by a process that crashed, and is replaced; a file that is not a socket is never touched. A process may
// connect to a socket if it may write to its file: processes of our user and, with --shared-memory-group, of
// that group.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/file_descriptor.h"

namespace numoe::worker {

/// Checks that the address can be listened on: binds to it for a moment and leaves nothing behind.
/// INVALID_ARGUMENT, ALREADY_EXISTS or UNAVAILABLE names --listen, or --shared-memory-group if a socket file
/// cannot be given to `group`, and what prevents it.
absl::Status CheckListenAddress(const std::string& address, std::optional<gid_t> group = std::nullopt);
/// Checks a HOST:PORT that `flag` gives; `also` is what else the flag accepts, for the message.
absl::Status CheckPortAddress(const std::string& flag, const std::string& address, const char* also);
/// Returns the path of a unix: address; "" for other addresses.
std::string UnixPath(const std::string& address);
/// Removes the socket file at `path` if no process serves it. Returns the same errors.
absl::Status ClearUnixPath(const std::string& path);

/// Makes the processes that listen in one folder take turns: two that find the same stale socket file at the
/// same moment would both replace it, and the first one would then serve a socket that has no file. Exists
/// from ClearUnixPath until the socket listens. A process that keeps its turn for seconds is not waited for.
class FolderTurn {
 public:
  explicit FolderTurn(const std::string& path);

 private:
  FileDescriptor folder_;  // closing it ends the turn
};

/// While an object exists, files that this process creates are accessible to its own user only. At most one
/// object in the process.
class PrivateFiles {
 public:
  PrivateFiles();
  ~PrivateFiles();
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;

 private:
  const mode_t before_;
};
/// Lets processes of the group connect to the socket file at `path`, in addition to our own user.
/// INVALID_ARGUMENT names --shared-memory-group. REQUIRES: the file was created while a PrivateFiles existed.
absl::Status ShareSocket(const std::string& path, gid_t group);

}  // namespace numoe::worker
