// PeerCredentials: which process is at the other end of a connected Unix socket, as the kernel knows it.
//
// Abstract sockets have no permissions: every process of the host (of the network namespace) can connect to
// one and finds its name in /proc/net/unix. What goes over the mailbox socket is shared memory, so each end
// asks the kernel who the other is before anything is made or mapped. A process of our own user is believed,
// and one of root, who could read our memory anyway; others only where we were given a group that they belong
// to (--shared-memory-group). Memory is shared where each end believes the other: root's daemon is believed
// by all, but believes other users' no more than any does. Of the listening end the kernel tells who it was
// when it began to listen, of the connecting one who it was when it connected. Pure functions of a
// descriptor; any thread.
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
  pid_t pid = 0;              // as our namespace numbers it; 0: it has no number there
  std::vector<gid_t> groups;  // its own and the supplementary ones
};

absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket);

/// What --shared-memory-group names: a group's name or number, "" for none. INVALID_ARGUMENT: there is no
/// such group.
absl::StatusOr<std::optional<gid_t>> ParseSharedMemoryGroup(const std::string& name_or_number);

/// PERMISSION_DENIED names the peer, whom we expected and what to do. `own`: our effective user.
absl::Status CheckPeer(const PeerCredentials& peer, uid_t own, std::optional<gid_t> group);
/// The same of a connected socket's other end, for this process. FAILED_PRECONDITION: this process's user, or
/// the group, is the number as which strangers of other user namespaces show.
absl::Status CheckPeerOf(int socket, std::optional<gid_t> group);

}  // namespace numoe
