#include "expert_worker/service/listen_address.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace numoe::worker {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::chrono::seconds kTurnMax(5);
constexpr std::chrono::milliseconds kTurnPoll(5);

// A socket file is stale only if the kernel refuses the connection. A full queue (EAGAIN), a socket of
// another kind or one of another user belongs to a process that lives.
bool SomeoneServes(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  NUMOE_CHECK_LT(path.size(), sizeof address.sun_path) << "CheckUnixPath must refuse it";
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const bool stale =
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  close(fd);
  return !stale;
}

// Checks the path. Sets `stale` if there is a socket file that no process serves.
absl::Status CheckUnixPath(const std::string& path, bool& stale) {
  stale = false;
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("--listen: socket path \"{}\" has {} bytes, expected 1 to {}", path, path.size(),
                    sizeof(sockaddr_un::sun_path) - 1));
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("--listen=unix:{}: {}: {}; expected a folder this process may write to", path,
                    folder.string(), std::strerror(errno)));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(fmt::format(
        "--listen=unix:{}: exists and is not a socket; choose another path or move it away", path));
  }
  if (SomeoneServes(path)) {
    return absl::AlreadyExistsError(
        fmt::format("--listen: {} is served by another process; choose another path or stop it", path));
  }
  stale = true;
  return absl::OkStatus();
}

absl::Status GroupError(gid_t group, const std::string& what, int error) {
  return absl::InvalidArgumentError(
      fmt::format("--shared-memory-group: {} cannot be given to group {}: {}; expected a group that this "
                  "process's user {} is in: add the user to it, or start the process with it (systemd: "
                  "SupplementaryGroups=)",
                  what, group, std::strerror(error), geteuid()));
}

// Asks the kernel with a socket that has no file.
absl::Status CheckGroup(gid_t group) {
  const FileDescriptor trial(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fchown(trial.get(), static_cast<uid_t>(-1), group) == 0) return absl::OkStatus();
  return GroupError(group, "the socket of --listen", errno);
}

absl::Status TryBind(const std::string& flag, const std::string& address, const addrinfo& place) {
  const int fd = socket(place.ai_family, place.ai_socktype | SOCK_CLOEXEC, place.ai_protocol);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = fd >= 0 && bind(fd, place.ai_addr, place.ai_addrlen) == 0;
  const int why = errno;
  if (fd >= 0) close(fd);
  if (bound) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}={}: cannot listen there: {}; choose another address", flag,
                                            address, std::strerror(why)));
}

}  // namespace

std::string UnixPath(const std::string& address) {
  return address.rfind(kUnixPrefix, 0) == 0 ? address.substr(kUnixPrefix.size()) : "";
}

absl::Status ClearUnixPath(const std::string& path) {
  bool stale = false;
  RETURN_IF_ERROR(CheckUnixPath(path, stale));
  if (stale) unlink(path.c_str());
  return absl::OkStatus();
}

FolderTurn::FolderTurn(const std::string& path)
    : folder_(
          open(std::filesystem::absolute(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  using std::chrono::steady_clock;
  const steady_clock::time_point end = steady_clock::now() + kTurnMax;
  // Every process that may read the folder can hold the lock, so the wait is short, and a lost turn is not an
  // error.
  while (flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && steady_clock::now() < end)
    std::this_thread::sleep_for(kTurnPoll);
}

absl::Status CheckPortAddress(const std::string& flag, const std::string& address, const char* also) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  int number = -1;
  const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
  if (colon == 0 || port.empty() || read.ptr != port.data() + port.size() || number < 0 || number > 65'535) {
    return absl::InvalidArgumentError(
        fmt::format("{}={}: expected HOST:PORT with a port from 0 to 65535, or {}", flag, address, also));
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::InvalidArgumentError(fmt::format("{}={}: {}: {}", flag, address, host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> places(found, freeaddrinfo);
  return TryBind(flag, address, *places);
}

absl::Status CheckListenAddress(const std::string& address, std::optional<gid_t> group) {
  if (address.rfind(kUnixPrefix, 0) != 0) return CheckPortAddress("--listen", address, "unix:PATH");
  bool stale = false;
  RETURN_IF_ERROR(CheckUnixPath(UnixPath(address), stale));
  return group.has_value() ? CheckGroup(*group) : absl::OkStatus();
}

PrivateFiles::PrivateFiles() : before_(umask(077)) {}
PrivateFiles::~PrivateFiles() { umask(before_); }

absl::Status ShareSocket(const std::string& path, gid_t group) {
  constexpr mode_t kUserAndGroup = 0660;
  // Uses the descriptor, because in a folder of other users the path may meanwhile name another file, or a
  // link to one.
  const FileDescriptor file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISSOCK(info.st_mode) ||
      info.st_uid != geteuid()) {
    return absl::InvalidArgumentError(
        fmt::format("--listen=unix:{}: the socket was replaced by another file after it was made; expected a "
                    "folder that only this process's user writes to",
                    path));
  }
  // Sets the group first: until then the file is accessible to our user only, whatever group the folder gave
  // it.
  if (fchownat(file.get(), "", static_cast<uid_t>(-1), group, AT_EMPTY_PATH) != 0)
    return GroupError(group, path, errno);
  if (chmod(fmt::format("/proc/self/fd/{}", file.get()).c_str(), kUserAndGroup) != 0)
    return GroupError(group, path, errno);
  return absl::OkStatus();
}

}  // namespace numoe::worker
