// PeerCredentials: the process at the other end of a connected Unix socket, as the kernel reports it.
//
// Abstract sockets have no permissions: every process of the host (of the network namespace) can connect to
// one, and finds its name in /proc/net/unix. Shared memory is passed over the mailbox socket, so each end
// asks the kernel about the other end before anything is created or mapped. A process of our own user is
// trusted, and so is one of root, which could read our memory anyway. Others are trusted only if we were
// given a group to which they belong (--shared-memory-group). Memory is shared only if each end trusts the
// other: all trust root's daemon, but it trusts processes of other users only as far as any process does. For
// the listening end the kernel reports the user at the time when it began to listen, for the connecting end
// the user at the time when it connected. Pure functions of a descriptor; any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace numoe {

struct PeerCredentials {
  uid_t uid = 0;
  pid_t pid = 0;              // its number in our namespace; 0 if it has none there
  std::vector<gid_t> groups;  // its own and the supplementary ones
};

absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket);

/// Parses --shared-memory-group: a group's name or number; "" for none. INVALID_ARGUMENT if there is no such
/// group.
absl::StatusOr<std::optional<gid_t>> ParseSharedMemoryGroup(const std::string& name_or_number);

/// PERMISSION_DENIED names the peer, the expected users and what to do. `own`: our effective user.
absl::Status CheckPeer(const PeerCredentials& peer, uid_t own, std::optional<gid_t> group);
/// Does this for the other end of a connected socket and this process. FAILED_PRECONDITION if this process's
/// user, or the group, has the number as which the kernel shows processes of other user namespaces.
absl::Status CheckPeerOf(int socket, std::optional<gid_t> group);

}  // namespace numoe
