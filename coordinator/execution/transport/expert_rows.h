// ExpertRows: how many token rows every expert of every layer has computed, over all workers.
//
// Each worker counts what it computes since its own start; MergeExpertRows puts their counts together as the
// slices ask for, ExpertRowsJson writes what GET /expert_stats answers. Counts only rise, but for a worker
// that starts anew. Pure functions over values: any thread.
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

/// Takes another worker's counts into `all`, which is empty before the first. Slices by expert count disjoint
/// experts: they add up. Slices of the intermediate dimension all count the same rows: the largest is taken,
/// since a worker that was started anew knows only a part. REQUIRES: equal shapes.
void MergeExpertRows(const ExpertRows& one, bool slice_by_expert, ExpertRows& all);

/// {"layers":[{"layer":1,"rows":[n, ...]}, ...]}, with the layers that have experts.
/// REQUIRES: layer_is_moe has rows.layers entries.
std::string ExpertRowsJson(const ExpertRows& rows, const std::vector<bool>& layer_is_moe);

}  // namespace numoe::execution
