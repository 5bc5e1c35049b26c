// Limits of the scheduler: rows of logits in a step, and the size of tenants' turns.
//
// Constants only, with the unit in the name: how many. What does not fit into a step waits for the next one;
// the device's buffers are sized for it.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- layer calls -----------------------------------------------------------------------------------------
// Rows of logits in one step beyond one for each sequence, for the probabilities of prompts: at Kimi's
// vocabulary 84 MB, and a whole chunk of deterministic serving.
inline constexpr int kPromptLogitRowsMax = 128;

// --- shares of tenants -----------------------------------------------------------------------------------
// What a tenant of weight 1 has of a round. A prompt shorter than it is not computed in pieces for the sake
// of others, and a step of 2048 tokens has 16 turns.
inline constexpr int kFairQuantumTokens = 128;
// A waiting tenant of which nothing has run for this long gets the place of the last sequence of the tenant
// that has most.
inline constexpr int kFairWaitSeconds = 2;
// How long the place of a tenant's last sequence is kept after it has ended, for programs that ask one thing
// after the other.
inline constexpr int kFairPlaceSeconds = 2;
// One place in this many is kept in that way, at most.
inline constexpr int kFairPlacesPerKept = 8;
// Tenants with a series of their own in the metrics, in a coordinator's life; later ones share one.
inline constexpr size_t kTenantSeriesMax = 1'000;

}  // namespace numoe::limits
