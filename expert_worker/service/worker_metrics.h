// The worker's metrics from its executor's own counts, read when somebody scrapes.
//
// Per layer at most, whatever the number of experts: GetExpertStats of the control service has every expert.
// The executor and the progress must outlive the scrapes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/load_progress.h"

namespace numoe::worker {

/// Share of all of `rows` that the largest eighth of them (at least one) holds; 0 where all are 0.
double HottestShare(std::vector<double> rows);

void ExportProgress(Metrics& metrics, const LoadProgress& progress);
void ExportExecutor(Metrics& metrics, const ExpertExecutor& executor);

/// Where the worker's memory lies. Its series are absent until that is known, and where the kernel does not
/// say: 0 would mean that all of it is on other nodes. Make it before the first scrape; it must outlive them.
class PlaceMetrics {
 public:
  explicit PlaceMetrics(Metrics& metrics);
  PlaceMetrics(const PlaceMetrics&) = delete;
  PlaceMetrics& operator=(const PlaceMetrics&) = delete;
  /// From now on these are asked; they must outlive the scrapes.
  void Follow(const ExpertExecutor& executor, std::function<std::optional<double>()> mailboxes_local);

 private:
  std::optional<ExecutorStats> Stats() const;
  std::optional<double> MailboxesLocal() const;

  mutable Mutex mutex_;
  const ExpertExecutor* executor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::function<std::optional<double>()> mailboxes_local_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe::worker
