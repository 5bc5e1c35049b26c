// The memory that an allocation uses on a card, so that a plan counts what the driver will allocate: large
// allocations use whole pages of 2 MiB, small ones share pages in pieces of 512 bytes. cudaMalloc behaves
// like this on every card since Pascal, although it is not documented; a plan that counted only the bytes
// would be off by half a page for each of a model's thousand matrices. Pure.
#pragma once

#include <cstdint>

namespace numoe::execution::cuda {

inline constexpr uint64_t kAllocationPage = uint64_t{2} << 20;

constexpr uint64_t AllocatedBytes(uint64_t bytes) {
  constexpr uint64_t kSmall = 512;
  const uint64_t unit = bytes < kAllocationPage / 2 ? kSmall : kAllocationPage;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace numoe::execution::cuda
