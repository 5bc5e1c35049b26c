// Fingerprints of checkpoints: FNV-1a over headers and sizes, so that two processes can tell whether they
// opened the same model.
//
// Not for security. Source: http://www.isthe.com/chongo/tech/comp/fnv/
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

inline constexpr uint64_t kFingerprintStart = 0xcbf29ce484222325ull;

inline uint64_t AddToFingerprint(uint64_t fingerprint, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) fingerprint = (fingerprint ^ bytes[i]) * 0x100000001b3ull;
  return fingerprint;
}

}  // namespace numoe
