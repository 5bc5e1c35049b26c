// LoadProgress: how far the loading of a slice has come, for the log and for metrics.
//
// Loading hundreds of gigabytes takes minutes, and an operator wants to know how many minutes are left. The
// loading threads add what they have read; the first one that adds after kLoadReportSeconds writes a line to
// the log. Any thread may read the numbers at any time. An object serves one load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace numoe::worker {

class LoadProgress {
 public:
  /// Starts the clock. `bytes`: what will be read.
  void Begin(uint64_t bytes);
  /// `direct`: the bytes were read without the page cache.
  void Add(uint64_t bytes, bool direct);
  /// Counts pages that were allocated for what will be read. Called before Begin.
  void AddPages(uint64_t bytes);
  /// Stops the clock and writes the last line, which says that `what` was loaded.
  void Finish(const std::string& what);

  uint64_t bytes_total() const { return total_.load(std::memory_order_relaxed); }
  uint64_t bytes_done() const { return done_.load(std::memory_order_relaxed); }
  /// Grows with everything that the load does, so that an observer sees whether it progresses.
  uint64_t moves() const { return bytes_done() + pages_.load(std::memory_order_relaxed); }
  uint64_t bytes_direct() const { return direct_.load(std::memory_order_relaxed); }
  /// Returns the time since Begin, until Finish; 0 before Begin.
  double seconds() const;
  /// Returns "1.500 of 2.000 GiB read (75%), 0.50 GiB/s, 1 s left".
  std::string ToString() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool IsDue();

  std::atomic<uint64_t> total_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> direct_{0};
  std::atomic<uint64_t> pages_{0};    // bytes
  std::atomic<int64_t> begin_ns_{0};  // steady clock
  std::atomic<int64_t> end_ns_{0};
  std::atomic<int64_t> report_ns_{0};  // when the next line is due; 0 before Begin
};

}  // namespace numoe::worker
