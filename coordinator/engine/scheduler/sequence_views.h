// What the step's planner is told of the sequences (step_planner.h): their sizes, their blocks and whose they
// are.
//
// Pure functions of the sequences and the pool, but that a waiting sequence's found prefix is brought up to
// date. The engine thread calls them between steps; a view holds until a block is given out or taken back.
#pragma once

#include <map>
#include <vector>

#include "coordinator/engine/scheduler/block_tables.h"
#include "coordinator/engine/scheduler/sequence.h"
#include "coordinator/engine/scheduler/step_planner.h"

namespace numoe::engine {

/// `prompt_tokens`: the most that a step computes of one sequence. What is shared is left out where the step
/// cannot need it.
std::vector<SequenceView> ViewRunning(const std::vector<SequencePtr>& running, const BlockTables& tables,
                                      const BlockPool& pool, int prompt_tokens);
SequenceView ViewWaiting(Sequence& s, const BlockTables& tables, const BlockPool& pool);

/// The tenants whose prompts run or whose sequences wait, with their weights.
std::map<int, int> Contenders(const std::vector<SequencePtr>& running, const TenantLines& waiting);
/// Those with one token to compute.
int CountDecoding(const std::vector<SequencePtr>& running);

}  // namespace numoe::engine
