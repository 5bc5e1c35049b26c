// Limits of the scheduler: rows of logits in a step, and the sizes of tenants' shares.
//
// Constants only. The device's buffers are sized for them; what does not fit into a step waits for the next
// one.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- steps -----------------------------------------------------------------------------------------------
// Rows of logits in one step for the probabilities of prompts, in addition to one row for each sequence. It
// is a whole chunk of deterministic serving, and 84 MB with Kimi's vocabulary.
inline constexpr int kPromptLogitRowsMax = 128;

// --- shares of tenants -----------------------------------------------------------------------------------
// The tokens of a tenant with weight 1 in a round. A shorter prompt is not split for the sake of other
// tenants, and a step of 2048 tokens serves 16 tenants.
inline constexpr int kFairQuantumTokens = 128;
// After a tenant without a running sequence has waited for this time, the last running sequence in order must
// give up its slot (fair_slots.h).
inline constexpr int kFairWaitSeconds = 2;
// How long the slot of a tenant's last sequence is kept after it has ended, for programs that send one
// request after another.
inline constexpr int kFairSlotSeconds = 2;
// At most one slot in this number is kept in that way.
inline constexpr int kFairSlotsPerKept = 8;
// Tenants with their own series in the metrics until the coordinator restarts; later ones share one series.
inline constexpr size_t kTenantSeriesMax = 1'000;

}  // namespace numoe::limits
