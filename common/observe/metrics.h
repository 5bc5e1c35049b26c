// Metrics: one daemon's counters, gauges and histograms. They are named in metric_list.h and served in
// Prometheus text format or as OpenMetrics, together with the resources that the process uses
// (process_metrics.h).
//
// All metrics of the daemon exist from the start, so dashboards show zeros and no gaps. Metrics without
// labels are accessed by their enum (an array index). A metric with labels has one series for each set of
// values: get it once (With) and keep the reference, which is valid as long as the Metrics. Values that are
// stored elsewhere (queue lengths, hits of experts) are read during a scrape (OnScrape, Expose), so that hot
// paths do not pay for them. Using a metric of another daemon, or the wrong number of label values, is a
// broken invariant, which CHECKs. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/check.h"
#include "common/observe/metric_list.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace numoe {

#define NUMOE_METRIC_ID(id, ...) id,
#define NUMOE_NOTHING(...)
enum class CounterId : uint16_t { NUMOE_METRICS(NUMOE_METRIC_ID, NUMOE_NOTHING, NUMOE_NOTHING) };
enum class GaugeId : uint16_t { NUMOE_METRICS(NUMOE_NOTHING, NUMOE_METRIC_ID, NUMOE_NOTHING) };
enum class HistogramId : uint16_t { NUMOE_METRICS(NUMOE_NOTHING, NUMOE_NOTHING, NUMOE_METRIC_ID) };
#undef NUMOE_METRIC_ID

enum class MetricOwner : uint8_t {
  kCoordinator = 1,
  kWorker = 2,
  kBoth = 3,
  kRouter = 4,
  kServers = 5,
  kAll = 7
};
static_assert(static_cast<int>(MetricOwner::kBoth) ==
              (static_cast<int>(MetricOwner::kCoordinator) | static_cast<int>(MetricOwner::kWorker)));
static_assert(static_cast<int>(MetricOwner::kServers) ==
              (static_cast<int>(MetricOwner::kCoordinator) | static_cast<int>(MetricOwner::kRouter)));
static_assert(static_cast<int>(MetricOwner::kAll) ==
              (static_cast<int>(MetricOwner::kBoth) | static_cast<int>(MetricOwner::kRouter)));

/// Label values in the order in which metric_list.h names the labels.
using LabelValues = std::vector<std::string>;
using SampleSink = absl::FunctionRef<void(const LabelValues& values, double value)>;

class Metrics {
 public:
  /// `daemon`: kCoordinator, kWorker or kRouter; only its metrics exist.
  explicit Metrics(MetricOwner daemon);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  /// These are for metrics without labels.
  void Add(CounterId id, double amount = 1) { Plain(counters_, id).Increment(amount); }
  void Set(GaugeId id, double value) { Plain(gauges_, id).Set(value); }
  void Observe(HistogramId id, double value) { Plain(histograms_, id).Observe(value); }
  /// Adds counts that were kept elsewhere: `increments` for each bucket of BucketBounds(id) and for values
  /// above all of them.
  void Observe(HistogramId id, const std::vector<double>& increments, double sum) {
    NUMOE_DCHECK_EQ(increments.size(), BucketBounds(id).size() + 1);
    Plain(histograms_, id).ObserveMultiple(increments, sum);
  }
  static std::vector<double> BucketBounds(HistogramId id);

  /// Returns a series of a metric with labels; the same values give the same series.
  prometheus::Counter& With(CounterId id, const LabelValues& values);
  prometheus::Gauge& With(GaugeId id, const LabelValues& values);
  prometheus::Histogram& With(HistogramId id, const LabelValues& values);

  /// `refresh` runs before each scrape, on the scraper's thread, and sets gauges from a snapshot. What it
  /// uses must outlive the scrapes.
  void OnScrape(std::function<void()> refresh);
  /// The samples of `id` are what `source` emits at each scrape; `id` must not be used through With.
  void Expose(CounterId id, std::function<void(SampleSink)> source);
  void Expose(GaugeId id, std::function<void(SampleSink)> source);

  /// Remembers the trace of a request that a histogram without labels has counted with this value.
  void AddExemplar(HistogramId id, double value, const std::string& trace_id);

  /// From now on the metrics of NUMOE_METRIC_ALIASES are also served under the names of vLLM and SGLang
  /// (metric_aliases.h). Call it once, before the first scrape.
  void ServeAliases(const std::string& model_name);

  /// Returns the body of /metrics (metrics_answer.h) in the Prometheus text exposition format 0.0.4, or as
  /// OpenMetrics 1.0.
  std::string Serialise() const;
  std::string SerialiseOpenMetrics() const;

 private:
  class Collector;
  template <typename T, typename Id>
  static T& Plain(const std::vector<T*>& metrics, Id id) {
    return *CheckPlain(metrics[static_cast<size_t>(id)]);
  }
  template <typename T>
  static T* CheckPlain(T* metric) {
    if (metric == nullptr) FailPlain();
    return metric;
  }
  [[noreturn]] static void FailPlain();

  const MetricOwner daemon_;
  prometheus::Registry registry_;
  std::vector<prometheus::Counter*> counters_;  // by id; null for metrics with labels or of another daemon
  std::vector<prometheus::Gauge*> gauges_;
  std::vector<prometheus::Histogram*> histograms_;
  std::vector<prometheus::Family<prometheus::Counter>*>
      counter_families_;  // null for metrics of another daemon
  std::vector<prometheus::Family<prometheus::Gauge>*> gauge_families_;
  std::vector<prometheus::Family<prometheus::Histogram>*> histogram_families_;
  std::shared_ptr<Collector> collector_;
};

}  // namespace numoe
