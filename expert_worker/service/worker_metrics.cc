#include "expert_worker/service/worker_metrics.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace numoe::worker {
namespace {

// A histogram that adds what another histogram has counted since the last time.
class HistogramFollower {
 public:
  HistogramFollower(Metrics& metrics, HistogramId id, const std::vector<double>& bounds)
      : metrics_(metrics), id_(id), seen_{.counts = std::vector<uint64_t>(bounds.size() + 1), .sum = 0} {
    NUMOE_CHECK(Metrics::BucketBounds(id) == bounds) << "metric_list.h and expert_statistics.cc differ";
  }

  void Follow(const ValueCounts& now) {
    NUMOE_CHECK_EQ(now.counts.size(), seen_.counts.size());
    std::vector<double> increments;
    for (size_t i = 0; i < now.counts.size(); ++i) {
      NUMOE_DCHECK_GE(now.counts[i], seen_.counts[i]);
      increments.push_back(static_cast<double>(now.counts[i] - seen_.counts[i]));
    }
    metrics_.Observe(id_, increments, now.sum - seen_.sum);
    seen_ = now;
  }

 private:
  Metrics& metrics_;
  const HistogramId id_;
  ValueCounts seen_;
};

struct CallFollowers {
  HistogramFollower tokens, rows, seconds;
};

void SetHottest(Metrics& metrics, const ExpertSnapshot& experts) {
  NUMOE_CHECK_EQ(experts.decayed.size(),
                 static_cast<size_t>(experts.layers) * static_cast<size_t>(experts.experts));
  for (int layer = 0; layer < experts.layers; ++layer) {
    const auto begin = experts.decayed.begin() + int64_t{layer} * experts.experts;
    const double share = HottestShare(std::vector<double>(begin, begin + experts.experts));
    if (share > 0) metrics.With(GaugeId::kExpertHottest, {std::to_string(layer)}).Set(share);
  }
}

}  // namespace

double HottestShare(std::vector<double> rows) {
  const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
  if (all <= 0) return 0;
  const auto hottest = rows.begin() + static_cast<int64_t>(std::max<size_t>(rows.size() / 8, 1));
  std::partial_sort(rows.begin(), hottest, rows.end(), std::greater<>());
  return std::accumulate(rows.begin(), hottest, 0.0) / all;
}

void ExportProgress(Metrics& metrics, const LoadProgress& progress) {
  metrics.OnScrape([&] {
    metrics.Set(GaugeId::kLoadBytes, static_cast<double>(progress.bytes_total()));
    metrics.Set(GaugeId::kLoadBytesDone, static_cast<double>(progress.bytes_done()));
    metrics.Set(GaugeId::kLoadSeconds, progress.seconds());
  });
}

PlacementMetrics::PlacementMetrics(Metrics& metrics) {
  metrics.Expose(GaugeId::kWeightsLocal, [this](SampleSink sink) {
    const std::optional<ExecutorStats> stats = Stats();
    if (stats && stats->local_share) sink({}, *stats->local_share);
  });
  metrics.Expose(GaugeId::kWeightsHugePages, [this](SampleSink sink) {
    const std::optional<ExecutorStats> stats = Stats();
    if (stats && stats->huge_page_share) sink({}, *stats->huge_page_share);
  });
  metrics.Expose(GaugeId::kWeightsOnNode, [this](SampleSink sink) {
    const std::optional<ExecutorStats> stats = Stats();
    if (!stats) return;
    for (const auto& [node, share] : stats->node_shares) sink({std::to_string(node)}, share);
  });
  metrics.Expose(GaugeId::kMailboxLocal, [this](SampleSink sink) {
    if (const std::optional<double> share = MailboxesLocal()) sink({}, *share);
  });
}

void PlacementMetrics::Follow(const ExpertExecutor& executor,
                              std::function<std::optional<double>()> mailboxes_local) {
  const MutexLock lock(mutex_);
  executor_ = &executor;
  mailboxes_local_ = std::move(mailboxes_local);
}

std::optional<ExecutorStats> PlacementMetrics::Stats() const {
  const MutexLock lock(mutex_);
  return executor_ == nullptr ? std::nullopt : std::optional(executor_->Stats());
}

std::optional<double> PlacementMetrics::MailboxesLocal() const {
  const MutexLock lock(mutex_);
  return mailboxes_local_ == nullptr ? std::nullopt : mailboxes_local_();
}

void ExportExecutor(Metrics& metrics, const ExpertExecutor& executor) {
  const auto followers = std::make_shared<CallFollowers>(CallFollowers{
      .tokens = {metrics, HistogramId::kExpertCallTokens, ExpertStatistics::SizeBounds()},
      .rows = {metrics, HistogramId::kExpertRowsOfCall, ExpertStatistics::SizeBounds()},
      .seconds = {metrics, HistogramId::kExpertCallDuration, ExpertStatistics::SecondsBounds()}});
  metrics.OnScrape([&, followers] {
    const ExecutorStats stats = executor.Stats();
    metrics.Set(GaugeId::kPinned, stats.pinned ? 1 : 0);
    metrics.Set(GaugeId::kThreads, stats.threads);
    metrics.Set(GaugeId::kWeightsBytes, static_cast<double>(stats.weight_bytes));
    for (const int node : stats.nodes) metrics.With(GaugeId::kWorkerNode, {std::to_string(node)}).Set(1);
    const CallSnapshot calls = executor.Statistics().Calls();
    followers->tokens.Follow(calls.tokens);
    followers->rows.Follow(calls.rows);
    followers->seconds.Follow(calls.seconds);
    SetHottest(metrics, executor.Statistics().Experts());
  });
  metrics.Expose(CounterId::kExpertCallsFailed,
                 [&](SampleSink sink) { sink({}, static_cast<double>(executor.Stats().failed_calls)); });
  metrics.Expose(CounterId::kExpertWeightBytes,
                 [&](SampleSink sink) { sink({}, static_cast<double>(executor.Stats().weight_bytes_used)); });
  metrics.Expose(CounterId::kExpertRows, [&](SampleSink sink) {
    const ExpertSnapshot experts = executor.Statistics().Experts();
    NUMOE_CHECK_EQ(experts.rows.size(),
                   static_cast<size_t>(experts.layers) * static_cast<size_t>(experts.experts));
    for (int layer = 0; layer < experts.layers; ++layer) {
      const auto begin = experts.rows.begin() + int64_t{layer} * experts.experts;
      const uint64_t rows = std::accumulate(begin, begin + experts.experts, uint64_t{0});
      if (rows > 0) sink({std::to_string(layer)}, static_cast<double>(rows));
    }
  });
}

}  // namespace numoe::worker
