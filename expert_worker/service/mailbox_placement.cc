#include "expert_worker/service/mailbox_placement.h"

#include "common/base/check.h"
#include "common/topology/memory_policy.h"
#include "common/topology/node_memory.h"
#include "common/topology/node_room.h"

namespace numoe::worker {

absl::StatusOr<MailboxSegment> CreateMailboxOn(const std::vector<int>& nodes, size_t slot_bytes,
                                               uint64_t session) {
  NUMOE_CHECK_GT(slot_bytes, size_t{0});
  if (nodes.empty()) return MailboxSegment::Create(slot_bytes, session);
  static Mutex one_at_a_time;  // two at a time would both count on the same memory
  const MutexLock lock(one_at_a_time);
  const uint64_t bytes = MailboxSegment::BytesFor(slot_bytes);
  const bool room = AvailableOn(ReadNodeRooms("/", nodes)) >= bytes;
  const ScopedMemoryPolicy policy(room ? MemoryPolicy::kBind : MemoryPolicy::kLocal, nodes);
  return MailboxSegment::Create(slot_bytes, session);
}

std::optional<double> MailboxPlacements::least() const {
  const MutexLock lock(mutex_);
  return shares_.empty() ? std::nullopt : std::optional(*shares_.begin());
}

ScopedMailboxPlacement::ScopedMailboxPlacement(MailboxPlacements& placements, const MailboxSegment& mailbox,
                                               const std::vector<int>& nodes)
    : placements_(placements), share_(nodes.empty() ? std::nullopt : LocalShare({mailbox.bytes()}, nodes)) {
  if (!share_) return;
  const MutexLock lock(placements_.mutex_);
  placements_.shares_.insert(*share_);
}

ScopedMailboxPlacement::~ScopedMailboxPlacement() {
  if (!share_) return;
  const MutexLock lock(placements_.mutex_);
  const auto mine = placements_.shares_.extract(*share_);
  NUMOE_CHECK(!mine.empty()) << "the entry must exist until this destructor";
}

}  // namespace numoe::worker
