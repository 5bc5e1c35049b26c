#include "expert_worker/experts/expert_statistics.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/experts_limits.h"

namespace numoe::worker {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

// When weights have grown by 2^kRebaseHalfLives, all counts are scaled back, so that rows times a weight stay
// far below the largest double.
constexpr double kRebaseHalfLives = 500;

// Only one thread writes, so no other store can happen between the load and the store.
template <typename T>
void AddAlone(std::atomic<T>& counter, T amount) {
  counter.store(counter.load(kRelaxed) + amount, kRelaxed);
}

}  // namespace

ExpertStatistics::ExpertStatistics(int layers, int experts, Clock::time_point now)
    : layers_(layers),
      experts_(experts),
      counts_(static_cast<size_t>(layers) * static_cast<size_t>(experts)),
      tokens_(SizeBounds()),
      rows_(SizeBounds()),
      seconds_(SecondsBounds()),
      start_(now) {}

void ExpertStatistics::Count(LayerId layer, int tokens, absl::Span<const ExpertGroup> groups,
                             Clock::duration duration, Clock::time_point now) {
  NUMOE_DCHECK(0 <= layer && layer < layers_);
  NUMOE_DCHECK_GT(tokens, 0);
  if (HalfLives(now) - base_.load(kRelaxed) > kRebaseHalfLives) Rebase(HalfLives(now));
  const double weight = std::exp2(HalfLives(now) - base_.load(kRelaxed));
  Counts* counts = &counts_[static_cast<size_t>(layer) * static_cast<size_t>(experts_)];
  for (const ExpertGroup& group : groups) {
    NUMOE_DCHECK(0 <= group.expert && group.expert < experts_ && group.rows > 0);
    Counts& expert = counts[group.expert];
    AddAlone(expert.rows, static_cast<uint64_t>(group.rows));
    AddAlone(expert.calls, uint64_t{1});
    AddAlone(expert.weighted, group.rows * weight);
    rows_.Add(group.rows);
  }
  tokens_.Add(tokens);
  seconds_.Add(std::chrono::duration<double>(duration).count());
}

ExpertSnapshot ExpertStatistics::Experts(Clock::time_point now) const {
  ExpertSnapshot snapshot{.layers = layers_, .experts = experts_, .rows = {}, .calls = {}, .decayed = {}};
  const double fade = std::exp2(base_.load(kRelaxed) - HalfLives(now));
  for (const Counts& counts : counts_) {
    snapshot.rows.push_back(counts.rows.load(kRelaxed));
    snapshot.calls.push_back(counts.calls.load(kRelaxed));
    snapshot.decayed.push_back(counts.weighted.load(kRelaxed) * fade);
  }
  return snapshot;
}

CallSnapshot ExpertStatistics::Calls() const {
  return {.tokens = tokens_.Read(), .rows = rows_.Read(), .seconds = seconds_.Read()};
}

const std::vector<double>& ExpertStatistics::SizeBounds() {
  static const std::vector<double> bounds = [] {
    std::vector<double> sizes;
    for (int size = 1; size <= limits::kCallTokensMax; size *= 2) sizes.push_back(size);
    return sizes;
  }();
  return bounds;
}

const std::vector<double>& ExpertStatistics::SecondsBounds() {
  static const std::vector<double> bounds = [] {
    std::vector<double> seconds;
    for (double decade = 1e-5; decade < 2; decade *= 10) {
      for (const double step : {1.0, 2.0, 5.0}) seconds.push_back(decade * step);
    }
    return seconds;
  }();
  return bounds;
}

double ExpertStatistics::HalfLives(Clock::time_point now) const {
  return std::chrono::duration<double>(now - start_).count() / limits::kExpertHalfLifeSeconds;
}

// A concurrent reader may combine scaled counts with the old base. It then sees counts that are far too
// small, which can happen once in some days (500 half-lives).
void ExpertStatistics::Rebase(double half_lives) {
  NUMOE_CHECK_GE(half_lives, base_.load(kRelaxed)) << "time must not go backwards";
  const double fade = std::exp2(base_.load(kRelaxed) - half_lives);
  for (Counts& counts : counts_) counts.weighted.store(counts.weighted.load(kRelaxed) * fade, kRelaxed);
  base_.store(half_lives, kRelaxed);
}

void ExpertStatistics::Histogram::Add(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  NUMOE_DCHECK(0 <= bucket && static_cast<size_t>(bucket) < counts_.size());
  AddAlone(counts_[static_cast<size_t>(bucket)], uint64_t{1});
  AddAlone(sum_, value);
}

ValueCounts ExpertStatistics::Histogram::Read() const {
  ValueCounts values{.counts = {}, .sum = sum_.load(kRelaxed)};
  for (const std::atomic<uint64_t>& count : counts_) values.counts.push_back(count.load(kRelaxed));
  return values;
}

}  // namespace numoe::worker
