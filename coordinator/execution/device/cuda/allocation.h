// What an allocation takes of a card, so that a plan counts what the driver will: large ones are whole pages
// of 2 MiB, small ones share pages in pieces of 512 bytes. That is how cudaMalloc behaves on every card since
// Pascal, nowhere promised; a plan that counted bytes alone would be off by half a page for each of a model's
// thousand matrices. Pure.
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
