// ExpertRows: how many token rows every expert of every layer has computed, over all workers.
//
// Each worker counts what it has computed since its own start. MergeExpertRows merges the workers' counts,
// depending on how the model is sliced, and ExpertRowsJson writes the answer of GET /expert_stats. Counts
// never decrease, except when a worker restarts. Pure functions of values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace numoe::execution {

struct ExpertRows {
  int layers = 0;
  int experts = 0;
  std::vector<uint64_t> rows;  // [layers, experts]; a row is one token in one expert
};

/// Merges another worker's counts into `all`, which is empty before the first. Slices by expert count
/// disjoint experts, so the counts are added. Slices of the intermediate dimension all count the same rows,
/// so the largest count is kept, since a worker that was restarted has counted only a part. REQUIRES: equal
/// shapes.
void MergeExpertRows(const ExpertRows& one, bool slice_by_expert, ExpertRows& all);

/// Returns {"layers":[{"layer":1,"rows":[n, ...]}, ...]} with the layers that have experts.
/// REQUIRES: layer_is_moe has rows.layers entries.
std::string ExpertRowsJson(const ExpertRows& rows, const std::vector<bool>& layer_is_moe);

}  // namespace numoe::execution
