// ExpertStatistics: how often each expert of each layer is used, and how large the calls are.
//
// Written by the one thread that executes calls, with plain stores: nothing is locked and no cache line is
// shared but with a reader that happens to look. Read by any thread at any time; a snapshot taken during a
// call may hold a part of it. `decayed` counts rows that fade with a half-life of kExpertHalfLifeSeconds:
// what is hot now, for placing experts. A row is one token in one expert.
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

/// Counts of values up to each bound, and above the last.
struct ValueCounts {
  std::vector<uint64_t> counts;  // [bounds + 1]
  double sum = 0;
};

struct ExpertSnapshot {
  int layers = 0;
  int experts = 0;
  std::vector<uint64_t> rows;   // [layers, experts]
  std::vector<uint64_t> calls;  // [layers, experts] that had any row for the expert
  std::vector<double> decayed;  // [layers, experts] rows, faded
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

  /// One call, done. One thread at a time.
  void Count(LayerId layer, int tokens, absl::Span<const ExpertGroup> groups, Clock::duration duration,
             Clock::time_point now = Clock::now());

  ExpertSnapshot Experts(Clock::time_point now = Clock::now()) const;
  CallSnapshot Calls() const;

  /// 1, 2, 4 ... kCallTokensMax: of CallSnapshot::tokens and ::rows.
  static const std::vector<double>& SizeBounds();
  /// 10 us, 20, 50 ... 5 s.
  static const std::vector<double>& SecondsBounds();

 private:
  // One line for both: an expert's counts cost one cache miss.
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
  std::atomic<double> base_{0};  // half-lives after start_ that `weighted` counts from
};

}  // namespace numoe::worker
