#include "common/topology/memory_policy.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include "common/base/check.h"
#include "common/topology/number_list.h"

namespace numoe {
namespace {

// The values of linux/mempolicy.h, whose enumerators would clash with names of this file.
constexpr int kModeBind = 2;
constexpr int kModeLocal = 4;
constexpr unsigned kMoveOwnPages = 1 << 1;  // MPOL_MF_MOVE
constexpr size_t kNodesMax = 1024;
constexpr size_t kWordBits = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, kNodesMax / kWordBits>;
static_assert(kNodesMax % kWordBits == 0);

// The kernel expects the length of a mask to be one bit more than the bits that it reads.
constexpr unsigned long kMaskBits = kNodesMax + 1;

struct Policy {
  int mode = kModeLocal;
  NodeMask mask = {};
  // kModeLocal takes no nodes.
  const unsigned long* nodes() const { return mode == kModeLocal ? nullptr : mask.data(); }
  unsigned long bits() const { return mode == kModeLocal ? 0 : kMaskBits; }
};

Policy Make(MemoryPolicy policy, const std::vector<int>& nodes) {
  Policy made{.mode = policy == MemoryPolicy::kBind ? kModeBind : kModeLocal};
  for (const int node : nodes) {
    if (node < 0 || static_cast<size_t>(node) >= kNodesMax) continue;
    made.mask[static_cast<size_t>(node) / kWordBits] |= 1ul << (static_cast<size_t>(node) % kWordBits);
  }
  return made;
}

absl::Status Refused(const char* call) {
  const int why = errno;
  const std::string text = fmt::format("{}: {}", call, std::strerror(why));
  if (why == EPERM || why == ENOSYS) return absl::PermissionDeniedError(text);
  return why == ENOMEM ? absl::ResourceExhaustedError(text) : absl::InvalidArgumentError(text);
}

// The kernel's names of the modes. A name precedes every name that is a prefix of it ("prefer (many)" and
// "prefer"), because the first match counts.
constexpr std::string_view kModes[] = {
    "weighted interleave", "prefer (many)", "interleave", "prefer", "local", "bind"};

absl::Status BindPages(absl::Span<const std::byte> pages, const Policy& policy, unsigned flags) {
  NUMOE_CHECK(reinterpret_cast<uintptr_t>(pages.data()) % 4096 == 0) << "a policy applies to whole pages";
  if (syscall(SYS_mbind, pages.data(), pages.size(), policy.mode, policy.nodes(), policy.bits(), flags) != 0)
    return Refused("mbind");
  return absl::OkStatus();
}

}  // namespace

absl::Status SetMemoryPolicy(absl::Span<std::byte> pages, MemoryPolicy policy,
                             const std::vector<int>& nodes) {
  return BindPages(pages, Make(policy, nodes), 0);
}

absl::Status MoveMemory(absl::Span<const std::byte> pages, const std::vector<int>& nodes) {
  return BindPages(pages, Make(MemoryPolicy::kBind, nodes), kMoveOwnPages);
}

absl::Status SetThreadMemoryPolicy(MemoryPolicy policy, const std::vector<int>& nodes) {
  const Policy made = Make(policy, nodes);
  if (syscall(SYS_set_mempolicy, made.mode, made.nodes(), made.bits()) != 0) return Refused("set_mempolicy");
  return absl::OkStatus();
}

ScopedMemoryPolicy::ScopedMemoryPolicy(MemoryPolicy policy, const std::vector<int>& nodes) {
  static_assert(sizeof(mask_) == sizeof(NodeMask));
  if (syscall(SYS_get_mempolicy, &mode_, mask_.data(), kMaskBits, nullptr, 0) != 0) return;
  changed_ = SetThreadMemoryPolicy(policy, nodes).ok();
}

ScopedMemoryPolicy::~ScopedMemoryPolicy() {
  if (!changed_) return;
  const bool names_nodes =
      std::any_of(mask_.begin(), mask_.end(), [](unsigned long word) { return word != 0; });
  syscall(SYS_set_mempolicy, mode_, names_nodes ? mask_.data() : nullptr, names_nodes ? kMaskBits : 0);
}

bool InheritedPolicy::KeepsTo(const std::set<int>& home) const {
  NUMOE_CHECK(!home.empty());
  // Under a bind policy the kernel chooses the nearest of the named nodes; under policies that prefer nodes
  // or interleave them it may choose any of them.
  if (text.rfind("bind", 0) == 0) return std::includes(nodes.begin(), nodes.end(), home.begin(), home.end());
  return std::includes(home.begin(), home.end(), nodes.begin(), nodes.end());
}

std::optional<InheritedPolicy> ReadInheritedPolicy(const std::filesystem::path& root) {
  // A line is "ADDRESS MODE[=FLAGS][:NODES] key=value ...". Memory without a policy of its own shows the
  // policy of the process.
  std::ifstream file(root / "proc/self/numa_maps");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t space = line.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(line).substr(space + 1);
  for (const std::string_view mode : kModes) {
    if (rest.rfind(mode, 0) != 0) continue;
    const std::string_view text = rest.substr(0, rest.find(' ', mode.size()));
    const size_t colon = text.find(':', mode.size());
    const auto nodes = ParseNumberList(colon == std::string_view::npos ? "" : text.substr(colon + 1));
    return InheritedPolicy{std::string(text), nodes.value_or(NumberList{})};
  }
  return std::nullopt;
}

}  // namespace numoe
