#include "coordinator/execution/device/cache_type.h"

#include "fmt/format.h"

namespace numoe::execution {

absl::StatusOr<CacheType> ParseCacheType(const std::string& name) {
  if (name == "auto" || name == "bf16" || name == "bfloat16") return CacheType::kBf16;
  if (name == "fp8_e4m3" || name == "fp8") return CacheType::kFp8;
  return absl::InvalidArgumentError(
      fmt::format("--kv-cache-dtype={}: expected auto, bf16 (bfloat16) or fp8_e4m3 (fp8)", name));
}

const char* CacheTypeName(CacheType type) { return type == CacheType::kFp8 ? "fp8_e4m3" : "bf16"; }

}  // namespace numoe::execution
