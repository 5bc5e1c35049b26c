// The worker's metrics from its executor's own counts, read when somebody scrapes.
//
// Per layer at most, whatever the number of experts: GetExpertStats of the control service has every expert.
// The executor and the progress must outlive the scrapes.
#pragma once

#include "common/observe/metrics.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/load_progress.h"

namespace numoe {

/// Share of all of `rows` that the largest eighth of them (at least one) holds; 0 where all are 0.
double HottestShare(std::vector<double> rows);

void ExportProgress(Metrics& metrics, const LoadProgress& progress);
void ExportExecutor(Metrics& metrics, const ExpertExecutor& executor);

}  // namespace numoe
