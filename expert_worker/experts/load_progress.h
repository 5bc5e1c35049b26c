// LoadProgress: how far the loading of a slice is, for the log and for metrics.
//
// Loading hundreds of gigabytes takes minutes, and an operator wants to know how many. The loading threads
// add what they have read; whoever adds after kLoadReportSeconds writes the line. Any thread reads the
// numbers at any time. One load in one object's life.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace numoe::worker {

class LoadProgress {
 public:
  /// `bytes`: what will be read. Begins the clock.
  void Begin(uint64_t bytes);
  /// `direct`: the bytes came past the page cache.
  void Add(uint64_t bytes, bool direct);
  /// Pages of memory were made for what will be read, before Begin.
  void AddPages(uint64_t bytes);
  /// Ends the clock and writes the last line; `what` was loaded.
  void Finish(const std::string& what);

  uint64_t bytes_total() const { return total_.load(std::memory_order_relaxed); }
  uint64_t bytes_done() const { return done_.load(std::memory_order_relaxed); }
  /// Grows with whatever the load does: for those who look whether it moves.
  uint64_t moves() const { return bytes_done() + pages_.load(std::memory_order_relaxed); }
  uint64_t bytes_direct() const { return direct_.load(std::memory_order_relaxed); }
  /// Since Begin, until Finish; 0 before Begin.
  double seconds() const;
  /// "1.500 of 2.000 GiB read (75%), 0.50 GiB/s, 1 s left".
  std::string ToString() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool IsDue();

  std::atomic<uint64_t> total_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> direct_{0};
  std::atomic<uint64_t> pages_{0};    // bytes
  std::atomic<int64_t> begin_ns_{0};  // of the steady clock
  std::atomic<int64_t> end_ns_{0};
  std::atomic<int64_t> report_ns_{0};  // the next line is due; 0: none has been
};

}  // namespace numoe::worker
