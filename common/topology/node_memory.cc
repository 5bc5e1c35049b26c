#include "common/topology/node_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "common/topology/memory_policy.h"

namespace numoe {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
static_assert(kHugePage % kPage == 0);

absl::Status Refused(const char* what, size_t bytes, const MemoryKind& kind) {
  const std::string pages =
      kind.pages == HugePages::kTransparent ? "" : fmt::format(" in pages of {}", HugePagesName(kind.pages));
  return absl::ResourceExhaustedError(fmt::format("cannot reserve {:.2f} GiB of memory{}: {}: {}",
                                                  static_cast<double>(bytes) / (1 << 30), pages, what,
                                                  std::strerror(errno)));
}

// The flags that memfd_create and mmap share for a size of pages.
unsigned SizeFlag(HugePages pages) {
  return pages == HugePages::kTransparent ? 0 : pages == HugePages::k1G ? MFD_HUGE_1GB : MFD_HUGE_2MB;
}

// Linux 5.1 or later has this seal. It is tried before memory is filled, because filling takes minutes.
absl::Status RequireContentSeal() {
  const FileDescriptor probe(memfd_create("numoe-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (probe.get() >= 0 && fcntl(probe.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "memory that other processes map must be sealed so that they cannot write to it: F_SEAL_FUTURE_WRITE: "
      "{}; expected Linux 5.1 or later, or a start without --share-experts",
      std::strerror(errno)));
}

absl::StatusOr<int> NewFile(size_t bytes, const MemoryKind& kind) {
  RETURN_IF_ERROR(RequireContentSeal());
  const unsigned huge = kind.pages == HugePages::kTransparent ? 0u : MFD_HUGETLB | SizeFlag(kind.pages);
  const int fd = memfd_create("numoe-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
  if (fd < 0) return Refused("memfd_create", bytes, kind);
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    return fd;
  const absl::Status refused = Refused("ftruncate", bytes, kind);
  close(fd);
  return refused;
}

}  // namespace

// Maps reserved or shared memory that is aligned to a huge page and consists of whole huge pages.
absl::Status NodeMemory::Map(const MemoryKind& kind) {
  NUMOE_CHECK(mapping_ == nullptr && fd_ < 0 && size_ > 0);
  const size_t page = HugePageBytes(kind.pages);
  const size_t bytes = (size_ + page - 1) / page * page;
  if (kind.shared) {
    ASSIGN_OR_RETURN(fd_, NewFile(bytes, kind));
  }
  // First reserve an address range that can be aligned here: not every kernel aligns files to huge pages.
  mapped_ = bytes + page;
  mapping_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    return Refused("mmap", bytes, kind);
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  auto* const aligned = reinterpret_cast<std::byte*>((address + page - 1) / page * page);
  const int sharing = kind.shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  const int huge = kind.pages == HugePages::kTransparent || kind.shared
                       ? 0
                       : MAP_HUGETLB | static_cast<int>(SizeFlag(kind.pages));
  if (mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | sharing | huge, fd_, 0) == MAP_FAILED)
    return Refused("mmap", bytes, kind);
  data_ = aligned;
  NUMOE_CHECK_LE(data_ + bytes, static_cast<std::byte*>(mapping_) + mapped_);
  paged_ = bytes;
  if (kind.pages == HugePages::kTransparent) madvise(data_, bytes, MADV_HUGEPAGE);
  return absl::OkStatus();
}

absl::Status PopulatePages(absl::Span<std::byte> part, HugePages pages, int advice) {
  // The kernel returns EINVAL for a span that does not begin at a page, which could not be distinguished from
  // the error of a kernel that does not know the advice.
  NUMOE_CHECK_EQ(reinterpret_cast<uintptr_t>(part.data()) % kPage, 0u);
  if (madvise(part.data(), part.size(), advice) == 0) return absl::OkStatus();
  if (errno == EINVAL) {
    // Reserved pages are not written here, because a write to a missing one would end this process;
    // RequireHugePages has counted them.
    for (size_t at = 0; pages == HugePages::kTransparent && at < part.size(); at += kPage)
      *static_cast<volatile std::byte*>(part.data() + at) = std::byte{0};
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      fmt::format("cannot allocate the pages of {} bytes of memory: {}; other processes have taken the free "
                  "pages meanwhile, or the cgroup's limit is lower; free some memory or raise that limit",
                  part.size(), std::strerror(errno)));
}

absl::Status NodeMemory::SealContent() const {
  NUMOE_CHECK_GE(fd_, 0) << "only shared memory has a descriptor to seal";
  // F_SEAL_SEAL is the last one, because it forbids any further seal.
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 && fcntl(fd_, F_ADD_SEALS, F_SEAL_SEAL) == 0)
    return absl::OkStatus();
  return absl::InternalError(
      fmt::format("shared memory of {} bytes: sealing: {}", size_, std::strerror(errno)));
}

absl::StatusOr<NodeMemory> NodeMemory::Allocate(size_t bytes, const MemoryKind& kind) {
  NodeMemory memory;
  if (bytes == 0) return memory;
  if (kind != MemoryKind{}) {
    memory.size_ = bytes;
    RETURN_IF_ERROR(memory.Map(kind));
    return memory;
  }
  // Blocks smaller than a huge page gain nothing from alignment.
  const size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  memory.paged_ = (bytes + kPage - 1) / kPage * kPage;
  memory.mapped_ = memory.paged_ + alignment - kPage;
  memory.mapping_ = mmap(nullptr, memory.mapped_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory.mapping_ == MAP_FAILED) {
    memory.mapping_ = nullptr;
    return Refused("mmap", bytes, kind);
  }
  const auto address = reinterpret_cast<uintptr_t>(memory.mapping_);
  memory.data_ = reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
  memory.size_ = bytes;
  NUMOE_CHECK_LE(memory.data_ + memory.paged_, static_cast<std::byte*>(memory.mapping_) + memory.mapped_);
  if (alignment == kHugePage) madvise(memory.data_, bytes, MADV_HUGEPAGE);
  return memory;
}

NodeMemory::NodeMemory(NodeMemory&& other) noexcept { *this = std::move(other); }

NodeMemory& NodeMemory::operator=(NodeMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(paged_, other.paged_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(fd_, other.fd_);
  return *this;
}

NodeMemory::~NodeMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
  if (fd_ >= 0) close(fd_);
}

namespace {

bool Overlaps(const MemorySpans& spans, uint64_t begin, uint64_t end) {
  return std::any_of(spans.begin(), spans.end(), [&](absl::Span<const std::byte> span) {
    const auto address = reinterpret_cast<uint64_t>(span.data());
    return !span.empty() && address < end && address + span.size() > begin;
  });
}

// Reads the number of a line "Key:   1234 kB"; returns false for a line with another key.
bool ReadKilobytes(const std::string& line, const char* key, uint64_t& value) {
  const size_t length = std::strlen(key);
  return line.compare(0, length, key) == 0 && std::sscanf(line.c_str() + length, "%" SCNu64, &value) == 1;
}

}  // namespace

std::optional<double> HugePageShare(const MemorySpans& spans) {
  std::ifstream smaps("/proc/self/smaps");
  bool mine = false;
  uint64_t resident = 0;  // kB
  uint64_t huge = 0;      // kB
  for (std::string line; std::getline(smaps, line);) {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t value = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) {
      mine = Overlaps(spans, begin, end);
    } else if (mine && ReadKilobytes(line, "Rss:", value)) {
      resident += value;
    } else if (mine && (ReadKilobytes(line, "Shared_Hugetlb:", value) ||
                        ReadKilobytes(line, "Private_Hugetlb:", value))) {
      resident += value;  // Rss does not count these pages
      huge += value;
    } else if (mine && (ReadKilobytes(line, "AnonHugePages:", value) ||
                        ReadKilobytes(line, "ShmemPmdMapped:", value) ||
                        ReadKilobytes(line, "FilePmdMapped:", value))) {
      huge += value;
    }
  }
  if (resident == 0) return std::nullopt;
  return static_cast<double>(huge) / static_cast<double>(resident);
}

std::optional<std::map<int, double>> ReadNodeShares(const std::filesystem::path& root,
                                                    const MemorySpans& spans) {
  // The lines are "ADDRESS POLICY key=value ... N0=PAGES N1=PAGES kernelpagesize_kB=4", sorted by address; a
  // mapping extends at most to the next line's address.
  std::ifstream maps(root / "proc/self/numa_maps");
  std::map<int, double> shares;  // bytes on each node in all mappings that contain spans
  std::map<int, double> before;  // bytes on each node in the mapping of the preceding line
  double resident = 0;
  uint64_t begin = 0;
  const auto count = [&](uint64_t end) {
    if (!before.empty() && Overlaps(spans, begin, end)) {
      for (const auto& [node, bytes] : before) {
        shares[node] += bytes;
        resident += bytes;
      }
    }
    before.clear();
  };
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    uint64_t address = 0;
    if (!(words >> std::hex >> address)) continue;
    count(address);
    begin = address;
    double page = kPage;
    for (std::string word; words >> word;) {
      int node = 0;
      unsigned long pages = 0, kilobytes = 0;
      if (std::sscanf(word.c_str(), "N%d=%lu", &node, &pages) == 2)
        before[node] += static_cast<double>(pages);
      if (std::sscanf(word.c_str(), "kernelpagesize_kB=%lu", &kilobytes) == 1)
        page = static_cast<double>(kilobytes) * 1024;
    }
    for (auto& [node, bytes] : before) bytes *= page;
  }
  count(UINT64_MAX);
  if (resident == 0) return std::nullopt;
  for (auto& [node, share] : shares) share /= resident;
  return shares;
}

std::optional<std::map<int, double>> NodeShares(const MemorySpans& spans) {
  constexpr size_t kSamplesMax = 4096;
  size_t total = 0;
  for (const auto& span : spans) total += span.size();
  const size_t stride = std::max(kPage, total / kSamplesMax / kPage * kPage);
  std::vector<const void*> pages;
  for (const auto& span : spans) {
    for (size_t at = 0; at < span.size(); at += stride) pages.push_back(span.data() + at);
  }
  std::vector<int> nodes(pages.size());
  // Without target nodes, move_pages moves nothing and reports where each page is.
  if (pages.empty()) return std::nullopt;
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
    return ReadNodeShares("/", spans);
  std::map<int, double> shares;
  double resident = 0;
  for (const int node : nodes) {
    // A negative value is an error: the page is not resident, or NUMA balancing is examining it.
    if (node < 0) continue;
    ++resident;
    ++shares[node];
  }
  if (resident == 0) return std::nullopt;
  for (auto& [node, share] : shares) share /= resident;
  return shares;
}

std::optional<double> LocalShare(const MemorySpans& spans, const std::vector<int>& nodes) {
  const std::optional<std::map<int, double>> shares = NodeShares(spans);
  if (!shares) return std::nullopt;
  double sum = 0;
  for (const auto& [node, share] : *shares) {
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) sum += share;
  }
  NUMOE_CHECK(0 <= sum && sum < 1.001) << sum;
  return sum;
}

void MoveToNodes(const MemorySpans& spans, const std::vector<int>& nodes,
                 const std::function<void(uint64_t)>& moved) {
  constexpr size_t kPart = size_t{1} << 30;  // about a second, so that an observer sees that it progresses
  static_assert(kPart % kPage == 0);
  for (const auto& span : spans) {
    const size_t before =
        reinterpret_cast<uintptr_t>(span.data()) % kPage;  // bytes from the page's beginning to the span
    const absl::Span<const std::byte> pages(span.data() - before, before + span.size());
    for (size_t at = 0; at < pages.size(); at += kPart) {
      const absl::Span<const std::byte> part = pages.subspan(at, kPart);
      MoveMemory(part, nodes).IgnoreError();
      moved(part.size());
    }
  }
}

}  // namespace numoe
