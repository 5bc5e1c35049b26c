#include "common/transport/peer_credentials.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "common/base/status.h"

namespace numoe {
namespace {

constexpr uid_t kRoot = 0;
constexpr size_t kGroupTextBytes = 64 << 10;  // for one entry with all its members

// The number as which the kernel shows users and groups that have no number in our user namespace.
uint32_t OverflowId(const char* setting) {
  constexpr uint32_t kUsual = 65534;
  std::ifstream file(setting);
  uint32_t id = 0;
  return file >> id ? id : kUsual;
}

// FAILED_PRECONDITION because processes of other namespaces would look like our own.
absl::Status CheckOurselves(uid_t own, std::optional<gid_t> group) {
  const bool user = own == OverflowId("/proc/sys/kernel/overflowuid");
  if (!user && !(group.has_value() && *group == OverflowId("/proc/sys/kernel/overflowgid")))
    return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "this process {} {}, the number as which the kernel shows processes of other user namespaces; expected "
      "another one; {}",
      user ? "runs as user" : "was given --shared-memory-group", user ? own : *group,
      user ? "run it as a user of its own"
           : "give --shared-memory-group a group that only NUMoE's users belong to"));
}

absl::Status PeerError(const char* what) {
  return absl::InternalError(
      fmt::format("the other end of the mailbox socket: {}: {}", what, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket) {
  ucred own{};
  socklen_t bytes = sizeof own;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &own, &bytes) != 0) return PeerError("SO_PEERCRED");
  PeerCredentials peer{.uid = own.uid, .pid = own.pid, .groups = {own.gid}};
  bytes = 0;
  // The first call returns how many groups there are. Kernels before 4.13 do not know the option; then only
  // the process's own group counts.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &bytes) == 0 || errno != ERANGE) return peer;
  std::vector<gid_t> groups(bytes / sizeof(gid_t));
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) != 0)
    return PeerError("SO_PEERGROUPS");
  groups.resize(bytes / sizeof(gid_t));
  peer.groups.insert(peer.groups.end(), groups.begin(), groups.end());
  return peer;
}

absl::StatusOr<std::optional<gid_t>> ParseSharedMemoryGroup(const std::string& name_or_number) {
  if (name_or_number.empty()) return std::nullopt;
  gid_t number = 0;
  const char* const end = name_or_number.data() + name_or_number.size();
  const auto read = std::from_chars(name_or_number.data(), end, number);
  // The largest number means "no group" to the kernel.
  if (read.ec == std::errc() && read.ptr == end && number != static_cast<gid_t>(-1)) return number;
  group entry{};
  group* found = nullptr;
  std::vector<char> text(kGroupTextBytes);
  if (getgrnam_r(name_or_number.c_str(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr)
    return entry.gr_gid;
  return absl::InvalidArgumentError(
      fmt::format("--shared-memory-group={}: this host has no such group; expected a group's name or number",
                  name_or_number));
}

absl::Status CheckPeer(const PeerCredentials& peer, uid_t own, std::optional<gid_t> group) {
  const bool member =
      group.has_value() && std::find(peer.groups.begin(), peer.groups.end(), *group) != peer.groups.end();
  if (peer.uid == own || peer.uid == kRoot || member) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format(
      "the other end of the mailbox socket is process {} of user {}; expected user {}, root{}; run "
      "coordinator and workers as one user, or give both --shared-memory-group with a group of both",
      peer.pid, peer.uid, own, group.has_value() ? fmt::format(" or group {}", *group) : ""));
}

absl::Status CheckPeerOf(int socket, std::optional<gid_t> group) {
  RETURN_IF_ERROR(CheckOurselves(geteuid(), group));
  ASSIGN_OR_RETURN(const PeerCredentials peer, ReadPeerCredentials(socket));
  return CheckPeer(peer, geteuid(), group);
}

}  // namespace numoe
