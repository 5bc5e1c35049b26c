// NodeMemory: a large block of anonymous memory for weights and caches, in huge pages where the kernel grants them.
//
// Pages land on the node of the thread that first writes them: fill it from threads bound to the node it should live on
// (no privilege needed, unlike mbind in a container). 2 MB aligned, zero when new. Move-only.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace numoe {

class NodeMemory {
 public:
  /// RESOURCE_EXHAUSTED names the size when the system refuses. Zero bytes give an empty block.
  static absl::StatusOr<NodeMemory> Allocate(size_t bytes);
  NodeMemory() = default;
  NodeMemory(NodeMemory&& other) noexcept;
  NodeMemory& operator=(NodeMemory&& other) noexcept;
  ~NodeMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace numoe
