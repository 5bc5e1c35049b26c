#include "expert_worker/preflight/cpu_neighbours.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "common/base/check.h"
#include "common/base/limits.h"

namespace numoe::worker {
namespace {

// Workers take minutes to load, so another one is noticed long before it computes.
constexpr std::chrono::seconds kLookEvery{1};
// The other workers count as often, and each count is a connection that stays until their next one.
constexpr int kBacklog = 4 * limits::kWorkersMax;

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Address AddressOf(const std::string& name, int number) {
  const std::string text = fmt::format("{}-{}", name, number);
  Address made;
  made.address.sun_family = AF_UNIX;
  NUMOE_CHECK_LT(text.size(), sizeof made.address.sun_path);
  std::memcpy(made.address.sun_path + 1, text.data(), text.size());  // a leading zero means an abstract name
  made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return made;
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// FNV-1a. Lists of CPUs may be longer than a socket's name, and all processes must compute the same name.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 14'695'981'039'346'656'037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211u;
  return hash;
}

// Sockets of other users do not count, because anyone may take such a name.
bool IsOurs(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuNeighbours>> CpuNeighbours::Join(const std::vector<int>& cpus) {
  NUMOE_CHECK(!cpus.empty());
  std::vector<int> sorted = cpus;
  std::sort(sorted.begin(), sorted.end());
  auto joined = std::unique_ptr<CpuNeighbours>(new CpuNeighbours());
  joined->name_ = fmt::format("numoe-expert-worker-cpus-{}-{:016x}", geteuid(),
                              Hash(fmt::format("{}", fmt::join(sorted, ","))));
  joined->listener_ = NewSocket();
  const int listener = joined->listener_.get();
  if (listener < 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  for (joined->number_ = 0; joined->number_ < limits::kWorkersMax; ++joined->number_) {
    const Address address = AddressOf(joined->name_, joined->number_);
    if (bind(listener, address.get(), address.length) != 0) continue;
    if (listen(listener, kBacklog) == 0) return joined;
    break;
  }
  return absl::ResourceExhaustedError(
      fmt::format("cannot listen at any of {} abstract sockets {}-0 and up ({}); expected a free one: end "
                  "workers of these CPUs, or say how many there are with --local-workers",
                  limits::kWorkersMax, joined->name_, std::strerror(errno)));
}

CpuNeighbours::~CpuNeighbours() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

bool CpuNeighbours::IsThere(int number) {
  NUMOE_CHECK_NE(number, number_) << "a process must not connect to itself";
  const FileDescriptor probe = NewSocket();
  const Address address = AddressOf(name_, number);
  if (probe.get() < 0) return false;
  if (connect(probe.get(), address.get(), address.length) == 0) {
    const bool ours = IsOurs(probe.get());
    if (ours) seen_.insert(number);
    if (!ours) seen_.erase(number);
  } else if (errno != EAGAIN) {  // EAGAIN: the listener cannot take more connections, so its owner cannot be
                                 // asked, and the last answer counts
    seen_.erase(number);
  }
  return seen_.count(number) > 0;
}

CpuShare CpuNeighbours::Count() {
  // The processes that counted us have closed their connections already; nothing is sent over them.
  while (FileDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).get() >= 0) {
  }
  CpuShare share{.place = 0, .sharing = 1};
  for (int number = 0; number < limits::kWorkersMax; ++number) {
    if (number == number_ || !IsThere(number)) continue;
    ++share.sharing;
    if (number < number_) ++share.place;
  }
  NUMOE_CHECK(0 <= share.place && share.place < share.sharing);
  return share;
}

void CpuNeighbours::Follow(const CpuShare& known, std::function<void(const CpuShare&)> moved) {
  NUMOE_CHECK(!thread_.joinable() && moved != nullptr);
  thread_ = std::thread([this, known, moved = std::move(moved)] {
    pthread_setname_np(pthread_self(), "cpu-neighbours");
    Watch(known, moved);
  });
}

void CpuNeighbours::Watch(CpuShare known, const std::function<void(const CpuShare&)>& moved) {
  const MutexLock lock(mutex_);
  while (!stop_) {
    if (const CpuShare found = Count(); found != known) {
      known = found;
      moved(found);
    }
    const auto next_look = std::chrono::steady_clock::now() + kLookEvery;
    while (!stop_ && wake_.WaitUntil(mutex_, next_look)) {
    }
  }
}

}  // namespace numoe::worker
