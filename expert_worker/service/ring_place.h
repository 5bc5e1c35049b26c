// On which NUMA nodes rings lie: a worker's ring is read and written in every call, as its weights are.
//
// CreateRingOn makes a segment on the worker's nodes and nowhere else, as long as these have room for it: the
// kernel then gives up cached files of theirs instead of taking another node's memory. RingPlaces keeps, for
// the metric, what share of each session's ring came to lie there; shared memory is not moved later. Any
// thread.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/ring_segment.h"

namespace numoe {

/// One at a time, so that each sees what is left. `nodes`: OS numbers; empty: anywhere. Errors are
/// RingSegment::Create's.
absl::StatusOr<RingSegment> CreateRingOn(const std::vector<int>& nodes, size_t slot_bytes, uint64_t session);

class RingPlaces {
 public:
  /// The least share, 0 to 1; nullopt: there is no ring, or the kernel does not say.
  std::optional<double> least() const;

 private:
  friend class ScopedRingPlace;
  mutable Mutex mutex_;
  std::multiset<double> shares_ ABSL_GUARDED_BY(mutex_);
};

/// One ring's entry, measured when this is made.
class ScopedRingPlace {
 public:
  ScopedRingPlace(RingPlaces& places, const RingSegment& ring, const std::vector<int>& nodes);
  ScopedRingPlace(const ScopedRingPlace&) = delete;
  ScopedRingPlace& operator=(const ScopedRingPlace&) = delete;
  ~ScopedRingPlace();

 private:
  RingPlaces& places_;
  const std::optional<double> share_;
};

}  // namespace numoe
