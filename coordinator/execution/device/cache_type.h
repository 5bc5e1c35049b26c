// CacheType: the data type of the KV cache, named as in vLLM's and SGLang's --kv-cache-dtype.
//
//   bf16      two bytes per value
//   fp8_e4m3  one byte per value, and one exponent byte per 128 values (common/kernels/cache_row.h); MLA's
//             rotated keys stay BF16
// Pure. INVALID_ARGUMENT lists the accepted names.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace numoe::execution {

enum class CacheType : uint8_t { kBf16, kFp8 };

/// "auto" is bf16; "fp8" is fp8_e4m3, "bfloat16" is bf16.
absl::StatusOr<CacheType> ParseCacheType(const std::string& name);
const char* CacheTypeName(CacheType type);

}  // namespace numoe::execution
