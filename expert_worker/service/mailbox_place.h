// On which NUMA nodes mailbox segments lie: a session's is read and written in every call, as the weights
// are.
//
// CreateMailboxOn makes a segment on the worker's nodes and nowhere else, as long as these have room for it:
// the kernel then gives up cached files of theirs instead of taking another node's memory. MailboxPlaces
// keeps, for the metric, what share of each session's segment came to lie there; shared memory is not moved
// later. Any thread.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/mailbox_segment.h"

namespace numoe::worker {

/// One at a time, so that each sees what is left. `nodes`: OS numbers; empty: anywhere. Errors are
/// MailboxSegment::Create's.
absl::StatusOr<MailboxSegment> CreateMailboxOn(const std::vector<int>& nodes, size_t slot_bytes,
                                               uint64_t session);

class MailboxPlaces {
 public:
  /// The least share, 0 to 1; nullopt: no session has a segment, or the kernel does not say.
  std::optional<double> least() const;

 private:
  friend class ScopedMailboxPlace;
  mutable Mutex mutex_;
  std::multiset<double> shares_ ABSL_GUARDED_BY(mutex_);
};

/// One segment's entry, measured when this is made.
class ScopedMailboxPlace {
 public:
  ScopedMailboxPlace(MailboxPlaces& places, const MailboxSegment& mailbox, const std::vector<int>& nodes);
  ScopedMailboxPlace(const ScopedMailboxPlace&) = delete;
  ScopedMailboxPlace& operator=(const ScopedMailboxPlace&) = delete;
  ~ScopedMailboxPlace();

 private:
  MailboxPlaces& places_;
  const std::optional<double> share_;
};

}  // namespace numoe::worker
