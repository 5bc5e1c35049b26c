#include "common/topology/host_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/memory_size.h"
#include "common/base/status.h"
#include "common/topology/available_memory.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytesMax = 128;
constexpr size_t kProgramBytesMax = 64;
constexpr uint64_t kPromiseBytesMax = uint64_t{1} << 50;  // more than any host has; sums stay in range
constexpr int kFilesMax = 1'024;                          // more NUMoE processes than any host has
constexpr std::chrono::seconds kLockPatience{10};         // other processes lock the folder for milliseconds
static_assert(kProgramBytesMax + sizeof " 1125899906842624 private\n" <= kFileBytesMax,
              "the longest reservation fits into its file");

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// Identifies a process until the host reboots: the PID alone does not, because PIDs are reused and every
// container has its own.
struct ProcessName {
  uint64_t pid_namespace = 0;
  uint64_t pid = 0;
  uint64_t start = 0;  // clock ticks since boot
  bool operator==(const ProcessName&) const = default;
};

std::string ToString(const ProcessName& name) {
  return fmt::format("{}-{}-{}", name.pid_namespace, name.pid, name.start);
}

std::optional<ProcessName> ParseProcessName(std::string_view text) {
  const size_t first = text.find('-'), second = text.find('-', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const auto pid_namespace = ParseNumber(text.substr(0, first));
  const auto pid = ParseNumber(text.substr(first + 1, second - first - 1));
  const auto start = ParseNumber(text.substr(second + 1));
  if (!pid_namespace || !pid || !start || *pid == 0 || *pid > INT32_MAX) return std::nullopt;
  const ProcessName name{*pid_namespace, *pid, *start};
  return ToString(name) == text ? std::optional(name) : std::nullopt;
}

// Returns nullopt if the process does not exist or has ended, or if /proc hides it.
std::optional<uint64_t> StartOf(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string line;
  std::getline(file, line);
  const size_t end_of_name = line.rfind(')');  // the name may contain anything, even ')'
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(end_of_name + 1));
  constexpr int kFieldsBefore = 19;  // proc_pid_stat(5): the state is the third field, the start the 22nd
  std::string skipped;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> skipped;
  uint64_t start = 0;
  return fields >> start ? std::optional(start) : std::nullopt;
}

ProcessName OwnName(const fs::path& root) {
  struct stat info {};
  ProcessName own{.pid = static_cast<uint64_t>(getpid())};
  if (stat((root / "proc/self/ns/pid").c_str(), &info) == 0) own.pid_namespace = info.st_ino;
  own.start = StartOf(root / "proc/self").value_or(0);
  return own;
}

// Returns the bytes of this kind of memory that the process holds, without the files that it maps, which the
// kernel can free for others. Returns nullopt if the kernel does not tell.
std::optional<uint64_t> HeldBy(const fs::path& process, PromisedMemory kind) {
  std::ifstream file(process / "status");
  uint64_t held = 0;
  int found = 0;
  for (std::string line; std::getline(file, line);) {  // "RssAnon:      1234 kB"
    const bool shared = line.rfind("RssShmem:", 0) == 0;
    if (line.rfind("RssAnon:", 0) != 0 && !shared) continue;
    uint64_t kilobytes = 0;
    if (!(std::istringstream(line.substr(line.find(':') + 1)) >> kilobytes)) return std::nullopt;
    if (!shared || kind == PromisedMemory::kAll) held += kilobytes << 10;
    ++found;
  }
  return found == 2 ? std::optional(held) : std::nullopt;
}

bool IsProgramName(std::string_view text) {
  return !text.empty() && text.size() <= kProgramBytesMax &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") ==
             std::string_view::npos;
}

struct Promise {
  std::string program;
  uint64_t bytes = 0;  // in total, including those that the process holds already
  PromisedMemory kind = PromisedMemory::kAll;
};

constexpr std::string_view kPrivate = "private", kAll = "all";

std::optional<Promise> ParsePromise(std::string_view text) {
  const size_t first = text.find(' '), second = text.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos || text.back() != '\n')
    return std::nullopt;
  const auto bytes = ParseNumber(text.substr(first + 1, second - first - 1));
  const std::string_view kind = text.substr(second + 1, text.size() - second - 2);
  if (!IsProgramName(text.substr(0, first)) || !bytes || *bytes > kPromiseBytesMax ||
      (kind != kPrivate && kind != kAll))
    return std::nullopt;
  return Promise{std::string(text.substr(0, first)), *bytes,
                 kind == kPrivate ? PromisedMemory::kPrivate : PromisedMemory::kAll};
}

// Copies the text before parsing it, because another process may change the file meanwhile.
std::optional<Promise> ReadPromise(int file) {
  char bytes[kFileBytesMax + 1];
  const ssize_t size = pread(file, bytes, sizeof bytes, 0);
  if (size <= 0 || static_cast<size_t>(size) > kFileBytesMax) return std::nullopt;
  return ParsePromise({bytes, static_cast<size_t>(size)});
}

bool IsOwnFile(int file) {
  struct stat info {};
  return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
}

absl::Status AwaitLock(int folder, const fs::path& path) {
  NUMOE_CHECK_GE(folder, 0);
  constexpr std::chrono::milliseconds kRetry{5};
  const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
  while (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return absl::UnavailableError(
          fmt::format("{}: cannot be locked: {}; expected a folder on a local file system", path.string(),
                      std::strerror(errno)));
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(fmt::format(
          "{}: another process has kept the folder locked for {} s; find it with fuser(1), and end it",
          path.string(), kLockPatience.count()));
    }
    std::this_thread::sleep_for(kRetry);
  }
  return absl::OkStatus();
}

// Reads one file of the folder; Read returns nullopt if the file withholds no memory.
class FoundFile {
 public:
  FoundFile(int folder, const fs::path& path, const fs::path& root)
      : folder_(folder), path_(path), root_(root), own_(OwnName(root)) {}

  std::optional<HostMemory::Other> Read(const std::string& file) const {
    const auto name = ParseProcessName(file);
    const FileDescriptor opened(
        openat(folder_, file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (opened.get() < 0 && errno == ENOENT) return std::nullopt;  // its process has just removed it
    if (!name || opened.get() < 0 || !IsOwnFile(opened.get()))
      return Ignore(file, "expected a file of this user named NAMESPACE-PID-START");
    if (flock(opened.get(), LOCK_SH | LOCK_NB) == 0) {  // its process is dead
      unlinkat(folder_, file.c_str(), 0);
      return std::nullopt;
    }
    if (name->pid_namespace != own_.pid_namespace || *name == own_) return std::nullopt;
    const fs::path process = root_ / "proc" / std::to_string(name->pid);
    const auto start = StartOf(process);
    // /proc may hide a running process (hidepid, or because the process is undumpable); then only its lock
    // shows that it runs.
    const bool hidden = !start && kill(static_cast<pid_t>(name->pid), 0) == 0;
    if (!hidden && start != name->start)
      return Ignore(file, "no process with this PID was started at this time");
    const auto promise = ReadPromise(opened.get());
    if (!promise) return Ignore(file, "expected one line, PROGRAM BYTES KIND");
    const uint64_t held = HeldBy(process, promise->kind).value_or(0);
    return HostMemory::Other{promise->program, static_cast<int>(name->pid),
                             promise->bytes - std::min(held, promise->bytes)};
  }

 private:
  std::optional<HostMemory::Other> Ignore(const std::string& file, const char* why) const {
    LogWarning(
        "{}: this file is not counted as a reservation of memory: {}; remove it if no NUMoE process wrote it",
        (path_ / file).string(), why);
    return std::nullopt;
  }

  int folder_;
  const fs::path& path_;
  const fs::path& root_;
  ProcessName own_;
};

void WarnAlone(const absl::Status& status) {
  LogWarning(
      "{}; so this process and the other NUMoE processes on this host do not know how much memory each of "
      "them will take",
      std::string(status.message()));
}

}  // namespace

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(file_, other.file_);
  std::swap(name_, other.name_);
  return *this;
}

MemoryReservation::~MemoryReservation() {
  if (file_.get() >= 0) unlinkat(folder_.get(), name_.c_str(), 0);
}

absl::StatusOr<HostMemory> HostMemory::ReadReservations(const std::string& folder, const fs::path& root) {
  HostMemory memory;
  memory.root_ = root;
  memory.must_ = folder != "auto";
  memory.path_ = memory.must_ ? fs::path(folder) : fs::path(fmt::format("/dev/shm/numoe-{}", geteuid()));
  std::vector<Other> all;
  absl::Status status = memory.OpenFolder();
  if (status.ok()) {
    absl::StatusOr<std::vector<Other>> read = memory.ReadOthers();
    status = read.status();
    if (read.ok()) all = *std::move(read);
  }
  if (!status.ok()) {
    if (memory.must_) return Annotate(status, "--memory-reservations");
    memory.folder_ = FileDescriptor();
    WarnAlone(status);
  }
  memory.Subtract(all);
  return memory;
}

absl::Status HostMemory::OpenFolder() {
  if (path_.empty()) return absl::InvalidArgumentError("found no value, expected auto or a folder");
  if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(
        fmt::format("{}: cannot be created: {}; expected a path at which this user can create a folder",
                    path_.string(), std::strerror(errno)));
  }
  FileDescriptor folder(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) {
    return absl::UnavailableError(
        fmt::format("{}: cannot be opened: {}; expected a folder, not a link to one", path_.string(),
                    std::strerror(errno)));
  }
  struct stat info {};
  NUMOE_CHECK_EQ(fstat(folder.get(), &info), 0);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: belongs to user {} with mode {:o}, expected user {} with mode 700; {}", path_.string(),
        info.st_uid, info.st_mode & 07777, geteuid(),
        must_ ? "name a folder that is used for nothing else (it is created if it does not exist), or, if "
                "this one is used for nothing else, give it that user and mode with chown and chmod 700"
              : "remove it, or name another folder with --memory-reservations"));
  }
  RETURN_IF_ERROR(AwaitLock(folder.get(), path_));
  folder_ = std::move(folder);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HostMemory::Other>> HostMemory::ReadOthers() const {
  NUMOE_CHECK_GE(folder_.get(), 0) << "OpenFolder must be called first";
  // Opens the folder a second time, because closedir of a duplicated descriptor would release the lock.
  const int listed = openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto close_listing = [](DIR* listing) { closedir(listing); };
  const std::unique_ptr<DIR, decltype(close_listing)> listing(listed < 0 ? nullptr : fdopendir(listed),
                                                              close_listing);
  if (listing == nullptr) {
    return absl::UnavailableError(
        fmt::format("{}: cannot be listed: {}", path_.string(), std::strerror(errno)));
  }
  const FoundFile found(folder_.get(), path_, root_);
  std::vector<Other> others;
  int files = 0;
  while (const dirent* const entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++files > kFilesMax) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: contains more than {} files, expected one for each NUMoE process of this user; "
                      "remove those that no process has open",
                      path_.string(), kFilesMax));
    }
    if (auto other = found.Read(name); other && other->bytes > 0) others.push_back(*std::move(other));
  }
  return others;
}

// Subtracts the reservations in the machine, and in each cgroup, from the memory that the machine or the
// cgroup has left; the smallest result is what is available.
void HostMemory::Subtract(const std::vector<Other>& all) {
  for (const MemoryBound& bound : MemoryBounds(root_)) {
    std::vector<Other> within;
    uint64_t reserved = 0;
    for (const Other& other : all) {
      if (!CountsIn(bound, other.process, root_)) continue;
      within.push_back(other);
      reserved += other.bytes;
    }
    const uint64_t left = bound.available - std::min(reserved, bound.available);
    if (left > available_ || (left == available_ && bound.available >= free_)) continue;
    available_ = left;
    free_ = bound.available;
    others_ = std::move(within);
    NUMOE_CHECK_LE(available_, free_);
  }
}

std::string HostMemory::Others() const {
  constexpr size_t kNamed = 8;  // the largest number of processes that are named
  if (others_.empty()) return "";
  NUMOE_CHECK_NE(free_, UINT64_MAX) << "others reserve part of a bounded memory";
  std::string text = fmt::format("of {} that are free ", MemorySize(free_));
  for (size_t i = 0; i < std::min(kNamed, others_.size()); ++i) {
    text += fmt::format("{}{}{} by {}, process {}", i == 0 ? "" : "; ", MemorySize(others_[i].bytes),
                        i == 0 ? " are reserved" : "", others_[i].program, others_[i].process);
  }
  if (others_.size() > kNamed) text += fmt::format("; more by {} others", others_.size() - kNamed);
  return text;
}

absl::StatusOr<MemoryReservation> HostMemory::Reserve(const std::string& program, uint64_t bytes,
                                                      PromisedMemory kind) const {
  NUMOE_CHECK(IsProgramName(program));
  if (folder_.get() < 0) return MemoryReservation();
  absl::StatusOr<MemoryReservation> reservation = Write(program, bytes, kind);
  if (reservation.ok()) return reservation;
  if (must_) return Annotate(reservation.status(), "--memory-reservations");
  WarnAlone(reservation.status());
  return MemoryReservation();
}

absl::StatusOr<MemoryReservation> HostMemory::Write(const std::string& program, uint64_t bytes,
                                                    PromisedMemory kind) const {
  const uint64_t held = HeldBy(root_ / "proc/self", kind).value_or(0);
  const std::string text = fmt::format("{} {} {}\n", program, std::min(held + bytes, kPromiseBytesMax),
                                       kind == PromisedMemory::kPrivate ? kPrivate : kAll);
  NUMOE_CHECK(text.size() <= kFileBytesMax && ParsePromise(text).has_value())
      << text;  // others must be able to read it
  const std::string name = ToString(OwnName(root_));
  NUMOE_CHECK(ParseProcessName(name).has_value()) << name;
  MemoryReservation reservation;
  reservation.folder_ = FileDescriptor(openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  reservation.file_ = FileDescriptor(
      openat(folder_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  reservation.name_ = name;
  const int file = reservation.file_.get();
  if (reservation.folder_.get() < 0 || file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0 ||
      pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return absl::UnavailableError(fmt::format("{}: cannot be written: {}; expected space for a small file",
                                              (path_ / name).string(), std::strerror(errno)));
  }
  return reservation;
}

}  // namespace numoe
