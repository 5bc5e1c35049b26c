// Makes the views of the sequences that the step planner (step_planner.h) works on: their sizes, blocks and
// tenants.
//
// Pure functions of the sequences and the pool, except that ViewWaiting updates the prefix that was found for
// the sequence. The engine thread calls them between steps; a view is valid until a block is allocated or
// released.
#pragma once

#include <map>
#include <vector>

#include "coordinator/engine/scheduler/block_tables.h"
#include "coordinator/engine/scheduler/sequence.h"
#include "coordinator/engine/scheduler/step_planner.h"

namespace numoe::engine {

/// Returns the views of the running sequences. `prompt_tokens`: the most tokens that a step computes for one
/// sequence. `shared` is only set if the step may have to preempt.
std::vector<SequenceView> ViewRunning(const std::vector<SequencePtr>& running, const BlockTables& tables,
                                      const BlockPool& pool, int prompt_tokens);
/// Returns the view of a waiting sequence, after it has updated the prefix that was found for the sequence.
SequenceView ViewWaiting(Sequence& s, const BlockTables& tables, const BlockPool& pool);

/// Returns the active tenants (fair_shares.h), which have running prompts or waiting sequences, with their
/// weights.
std::map<int, int> ActiveTenants(const std::vector<SequencePtr>& running, const TenantLines& waiting);
/// Returns how many sequences decode: those with one token to compute.
int CountDecoding(const std::vector<SequencePtr>& running);

}  // namespace numoe::engine
