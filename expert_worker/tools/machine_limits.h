// What this machine can do at most: the yardstick that every kernel's time is held against.
//
// Read bandwidth is that of all threads streaming memory much larger than any cache. A peak is that of one
// instruction on registers, all threads at once: multiply-adds count as two operations. AVX2's INT8 is the
// three instructions that add 32 products to sums of 32 bits; kernels on codes of 4 bits go past it, because
// eight of their products fit 16 bits. Shares of these limits can be compared between machines, and between
// runs on a shared one whose speed drifts.
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

/// Tera-operations a second of all threads; nullopt: this instruction set has no such instruction.
struct Peaks {
  double fp32 = 0;
  std::optional<double> bf16;
  std::optional<double> int8;
};

class MachineLimits {
 public:
  /// Takes memory for the bandwidth measurement. The pool outlives it.
  static absl::StatusOr<MachineLimits> Create(ThreadPool& pool, size_t bytes = size_t{1} << 30);

  /// GB/s of one pass over `bytes` of the memory (at most all of it), which goes on where the last one ended.
  double ReadBandwidth(size_t bytes);
  /// Of the dot products that `isa`'s kernels may use. Some milliseconds.
  Peaks MeasurePeaks(Isa isa);

 private:
  MachineLimits(ThreadPool& pool, NodeMemory memory) : pool_(&pool), memory_(std::move(memory)) {}

  ThreadPool* pool_;
  NodeMemory memory_;
  size_t next_ = 0;
};

/// `numoe-kernel-bench limits`: prints them. The program's exit code.
int RunLimitsBench(int threads, bool json);

/// The CPUs of this process's threads: `threads` of them, 0 for all.
absl::StatusOr<std::vector<int>> BenchCpus(int threads);

}  // namespace numoe::worker
