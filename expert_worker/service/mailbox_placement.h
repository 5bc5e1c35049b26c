// The NUMA nodes of mailbox segments. A session's segment is read and written in every call, like the
// weights.
//
// CreateMailboxOn allocates a segment on the worker's nodes only, as long as these have room for it: the
// kernel then drops cached files of those nodes instead of taking another node's memory. MailboxPlacements
// remembers, for the metric, which share of each session's segment is on those nodes; shared memory is not
// moved later. Any thread.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/mailbox_segment.h"

namespace numoe::worker {

/// Creates one segment at a time, so that each call sees how much memory is left. `nodes`: OS numbers; empty
/// means any node. Returns the errors of MailboxSegment::Create.
absl::StatusOr<MailboxSegment> CreateMailboxOn(const std::vector<int>& nodes, size_t slot_bytes,
                                               uint64_t session);

class MailboxPlacements {
 public:
  /// Returns the smallest share, 0 to 1; nullopt if no session has a segment, or if the kernel does not say.
  std::optional<double> least() const;

 private:
  friend class ScopedMailboxPlacement;
  mutable Mutex mutex_;
  std::multiset<double> shares_ ABSL_GUARDED_BY(mutex_);
};

/// The entry of one segment, whose share is measured by the constructor.
class ScopedMailboxPlacement {
 public:
  ScopedMailboxPlacement(MailboxPlacements& placements, const MailboxSegment& mailbox,
                         const std::vector<int>& nodes);
  ScopedMailboxPlacement(const ScopedMailboxPlacement&) = delete;
  ScopedMailboxPlacement& operator=(const ScopedMailboxPlacement&) = delete;
  ~ScopedMailboxPlacement();

 private:
  MailboxPlacements& placements_;
  const std::optional<double> share_;
};

}  // namespace numoe::worker
