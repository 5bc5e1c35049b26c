#include "common/base/memory_size.h"

#include <fmt/format.h>

namespace numoe {

std::string MemorySize(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

}  // namespace numoe
