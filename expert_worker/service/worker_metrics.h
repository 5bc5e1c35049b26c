// The worker's metrics, computed from its executor's counts when a scrape asks for them.
//
// There is at most one series for each layer, whatever the number of experts; GetExpertStats of the control
// service returns every expert. The executor and the progress must outlive the scrapes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/load_progress.h"

namespace numoe::worker {

/// Returns the share of all `rows` that belongs to the largest eighth of them (at least one); 0 if all are 0.
double HottestShare(std::vector<double> rows);

void ExportProgress(Metrics& metrics, const LoadProgress& progress);
void ExportExecutor(Metrics& metrics, const ExpertExecutor& executor);

/// Where the worker's memory is. The series are absent until that is known, and if the kernel does not say,
/// because 0 would mean that all of it is on other nodes. Create this before the first scrape; it must
/// outlive the scrapes.
class PlacementMetrics {
 public:
  explicit PlacementMetrics(Metrics& metrics);
  PlacementMetrics(const PlacementMetrics&) = delete;
  PlacementMetrics& operator=(const PlacementMetrics&) = delete;
  /// From now on the values come from these objects, which must outlive the scrapes.
  void Follow(const ExpertExecutor& executor, std::function<std::optional<double>()> mailboxes_local);

 private:
  std::optional<ExecutorStats> Stats() const;
  std::optional<double> MailboxesLocal() const;

  mutable Mutex mutex_;
  const ExpertExecutor* executor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::function<std::optional<double>()> mailboxes_local_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe::worker
