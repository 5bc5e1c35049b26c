// The limits of this machine, with which every kernel's time is compared.
//
// The read bandwidth is measured by all threads that stream memory much larger than any cache. A peak is that
// of one instruction on registers with all threads at once; multiply-adds count as two operations. AVX2's
// INT8 needs the three instructions that add 32 products to sums of 32 bits; kernels on codes of 4 bits
// exceed this peak, because eight of their products fit into 16 bits. Shares of these limits can be compared
// between machines, and between runs on a shared machine whose speed varies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"

namespace numoe::worker {

/// Tera-operations per second of all threads; nullopt if this instruction set has no such instruction.
struct Peaks {
  double fp32 = 0;
  std::optional<double> bf16;
  std::optional<double> int8;
};

class MachineLimits {
 public:
  /// Allocates memory for the bandwidth measurement. The pool must outlive the object.
  static absl::StatusOr<MachineLimits> Create(ThreadPool& pool, size_t bytes = size_t{1} << 30);

  /// Returns the GB/s of one pass over `bytes` of the memory (at most all of it), which continues where the
  /// last one ended.
  double ReadBandwidth(size_t bytes);
  /// Measures the dot products that `isa`'s kernels may use, in some milliseconds.
  Peaks MeasurePeaks(Isa isa);

 private:
  MachineLimits(ThreadPool& pool, NodeMemory memory) : pool_(&pool), memory_(std::move(memory)) {}

  ThreadPool* pool_;
  NodeMemory memory_;
  size_t next_ = 0;
};

/// `numoe-kernel-bench limits`: prints the limits. Returns the program's exit code.
int RunLimitsBench(int threads, bool json);

/// Returns the CPUs of this process's threads: `threads` of them, or all if it is 0.
absl::StatusOr<std::vector<int>> BenchCpus(int threads);

}  // namespace numoe::worker
