// ExpertStatistics: how often each expert of each layer is used, and how large the calls are.
//
// The thread that executes calls writes the counts with plain stores. It takes no lock, and shares a cache
// line only with a thread that reads the counts at that moment. Any thread may read at any time; a snapshot
// taken during a call may contain a part of that call. `decayed` counts rows with a half-life of
// kExpertHalfLifeSeconds, which says what is hot now, for placing experts. A row is one token in one expert.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe::worker {

/// The numbers of values up to each bound, and of those above the last one.
struct ValueCounts {
  std::vector<uint64_t> counts;  // [bounds + 1]
  double sum = 0;
};

struct ExpertSnapshot {
  int layers = 0;
  int experts = 0;
  std::vector<uint64_t> rows;   // [layers, experts]
  std::vector<uint64_t> calls;  // [layers, experts] calls with at least one row for the expert
  std::vector<double> decayed;  // [layers, experts] rows, decayed
};

struct CallSnapshot {
  ValueCounts tokens;   // of a call
  ValueCounts rows;     // of an expert in a call
  ValueCounts seconds;  // of a call
};

class ExpertStatistics {
 public:
  using Clock = std::chrono::steady_clock;

  ExpertStatistics(int layers, int experts, Clock::time_point now = Clock::now());

  /// Counts a finished call. One thread at a time.
  void Count(LayerId layer, int tokens, absl::Span<const ExpertGroup> groups, Clock::duration duration,
             Clock::time_point now = Clock::now());

  ExpertSnapshot Experts(Clock::time_point now = Clock::now()) const;
  CallSnapshot Calls() const;

  /// Returns the bounds of CallSnapshot::tokens and ::rows: 1, 2, 4 ... kCallTokensMax.
  static const std::vector<double>& SizeBounds();
  /// Returns the bounds of CallSnapshot::seconds: 10 us, 20, 50 ... 5 s.
  static const std::vector<double>& SecondsBounds();

 private:
  // All counts of an expert are in one cache line, so they cost one cache miss.
  struct alignas(32) Counts {
    std::atomic<uint64_t> rows{0};
    std::atomic<uint64_t> calls{0};
    std::atomic<double> weighted{0};  // rows times 2^(their time / half-life)
  };
  class Histogram {
   public:
    explicit Histogram(const std::vector<double>& bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
    void Add(double value);
    ValueCounts Read() const;

   private:
    const std::vector<double>& bounds_;
    std::vector<std::atomic<uint64_t>> counts_;
    std::atomic<double> sum_{0};
  };

  double HalfLives(Clock::time_point now) const;
  void Rebase(double half_lives);

  const int layers_;
  const int experts_;
  std::vector<Counts> counts_;
  Histogram tokens_;
  Histogram rows_;
  Histogram seconds_;
  const Clock::time_point start_;
  std::atomic<double> base_{0};  // time after start_, in half-lives, relative to which `weighted` counts
};

}  // namespace numoe::worker
