// Limits of one step of the scheduler: rows of logits that it may hold.
//
// Constants only, with the unit in the name: how many. What does not fit into a step waits for the next one;
// the device's buffers are sized for it.
#pragma once

namespace numoe::limits {

// --- layer calls -----------------------------------------------------------------------------------------
// Rows of logits in one step beyond one for each sequence, for the probabilities of prompts: at Kimi's
// vocabulary 84 MB, and a whole chunk of deterministic serving.
inline constexpr int kPromptLogitRowsMax = 128;

}  // namespace numoe::limits
