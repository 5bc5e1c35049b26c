#include "common/observe/metrics.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <string_view>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/observe/metric_aliases.h"
#include "common/observe/open_metrics.h"
#include "common/observe/process_metrics.h"
#include "prometheus/collectable.h"
#include "prometheus/text_serializer.h"

namespace numoe {
namespace {

struct MetricSpec {
  std::string_view name;
  MetricOwner owner;
  std::string_view labels;  // separated by commas
  std::string_view help;
};

enum class Buckets : uint8_t { kFew, kManyTokens, kMicroseconds, kMilliseconds, kPowersOfTwo };
struct HistogramSpec {
  MetricSpec metric;
  Buckets buckets;
};

#define NUMOE_SPEC(id, name, owner, labels, help) {name, MetricOwner::owner, labels, help},
#define NUMOE_HISTOGRAM_SPEC(id, name, owner, labels, buckets, help) \
  {{name, MetricOwner::owner, labels, help}, Buckets::buckets},
#define NUMOE_NAME(id, name, ...) std::string_view(name),
constexpr MetricSpec kCounters[] = {NUMOE_METRICS(NUMOE_SPEC, NUMOE_NOTHING, NUMOE_NOTHING)};
constexpr MetricSpec kGauges[] = {NUMOE_METRICS(NUMOE_NOTHING, NUMOE_SPEC, NUMOE_NOTHING)};
constexpr HistogramSpec kHistograms[] = {NUMOE_METRICS(NUMOE_NOTHING, NUMOE_NOTHING, NUMOE_HISTOGRAM_SPEC)};
constexpr std::string_view kNames[] = {NUMOE_METRICS(NUMOE_NAME, NUMOE_NAME, NUMOE_NAME)};

static_assert(std::size(kNames) == std::size(kCounters) + std::size(kGauges) + std::size(kHistograms));
constexpr bool Sorted() {
  for (size_t i = 1; i < std::size(kNames); ++i) {
    if (!(kNames[i - 1] < kNames[i])) return false;
  }
  return true;
}
static_assert(Sorted(), "metric_list.h must be sorted by name, without duplicates");

constexpr bool CountersEndInTotal() {
  return std::all_of(std::begin(kCounters), std::end(kCounters),
                     [](const MetricSpec& spec) { return spec.name.ends_with("_total"); });
}
static_assert(CountersEndInTotal(), "a counter's name must end in _total");

constexpr bool HistogramsEndInTheirUnit() {
  return std::all_of(std::begin(kHistograms), std::end(kHistograms), [](const HistogramSpec& spec) {
    const bool tokens = spec.buckets == Buckets::kPowersOfTwo || spec.buckets == Buckets::kManyTokens;
    return spec.buckets == Buckets::kFew || spec.metric.name.ends_with(tokens ? "_tokens" : "_seconds");
  });
}
static_assert(HistogramsEndInTheirUnit(), "a histogram's name must end in its unit");

// In OpenMetrics a counter's family has its name without _total, and no other family may have that name.
constexpr bool CountersHaveTheirNamesAlone() {
  return std::all_of(std::begin(kCounters), std::end(kCounters), [](const MetricSpec& spec) {
    const std::string_view family = spec.name.substr(0, spec.name.size() - std::string_view("_total").size());
    return std::find(std::begin(kNames), std::end(kNames), family) == std::end(kNames);
  });
}
static_assert(CountersHaveTheirNamesAlone());

prometheus::Histogram::BucketBoundaries Boundaries(Buckets buckets) {
  prometheus::Histogram::BucketBoundaries bounds;
  switch (buckets) {
    case Buckets::kFew:
      bounds = {1, 2, 5, 10, 20};
      break;
    case Buckets::kManyTokens:  // 1 to 500,000: from one token to the longest context
      for (double decade = 1; decade < 1e6; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) bounds.push_back(decade * step);
      }
      break;
    case Buckets::kMicroseconds:  // 10 us to 5 s: from a decode call of a small model to a long prefill call
      for (double decade = 1e-5; decade < 2; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) bounds.push_back(decade * step);
      }
      break;
    case Buckets::kMilliseconds:  // 1 ms to 500 s: from one token to a long answer
      for (double decade = 1e-3; decade < 200; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) bounds.push_back(decade * step);
      }
      break;
    case Buckets::kPowersOfTwo:  // 1 to 8192 tokens, the largest call
      for (int tokens = 1; tokens <= 8192; tokens *= 2) bounds.push_back(tokens);
      break;
  }
  NUMOE_CHECK(!bounds.empty());
  NUMOE_DCHECK(std::is_sorted(bounds.begin(), bounds.end()));
  return bounds;
}

bool Has(MetricOwner owner, MetricOwner daemon) {
  return (static_cast<uint8_t>(owner) & static_cast<uint8_t>(daemon)) != 0;
}

std::vector<std::string> LabelNames(const MetricSpec& spec) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < spec.labels.size();) {
    const size_t end = std::min(spec.labels.find(',', begin), spec.labels.size());
    names.emplace_back(spec.labels.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

prometheus::Labels MakeLabels(const MetricSpec& spec, const LabelValues& values) {
  const std::vector<std::string> names = LabelNames(spec);
  NUMOE_CHECK_EQ(names.size(), values.size()) << spec.name << " has labels \"" << spec.labels << "\"";
  prometheus::Labels labels;
  for (size_t i = 0; i < names.size(); ++i) labels[names[i]] = values[i];
  return labels;
}

template <typename Builder>
auto* Register(Builder builder, const MetricSpec& spec, prometheus::Registry& registry) {
  return &builder.Name(std::string(spec.name)).Help(std::string(spec.help)).Register(registry);
}

template <typename T>
prometheus::Family<T>& Existing(const std::vector<prometheus::Family<T>*>& families, size_t index,
                                const MetricSpec& spec) {
  NUMOE_CHECK(families[index] != nullptr) << spec.name << " belongs to another daemon";
  return *families[index];
}

}  // namespace

// Runs the refreshers, then combines what the registry contains and what the sources emit.
class Metrics::Collector final : public prometheus::Collectable {
 public:
  explicit Collector(const prometheus::Registry& registry) : registry_(registry) {}

  Exemplars& exemplars() { return exemplars_; }

  std::vector<prometheus::MetricFamily> Collect() const override {
    // The mutex is held all the time, so that two scrapers never call a refresher or source at the same time.
    const MutexLock lock(mutex_);
    for (const auto& refresh : refreshers_) refresh();
    std::vector<prometheus::MetricFamily> families = registry_.Collect();
    for (const Source& source : sources_) families.push_back(Read(source));
    if (!model_name_.empty()) AddAliases(families, model_name_);
    std::sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return families;
  }

  void SetModelName(const std::string& name) {
    const MutexLock lock(mutex_);
    model_name_ = name;
  }
  void AddRefresher(std::function<void()> refresh) {
    const MutexLock lock(mutex_);
    refreshers_.push_back(std::move(refresh));
  }
  void AddSource(const MetricSpec& spec, prometheus::MetricType type, std::function<void(SampleSink)> emit) {
    const MutexLock lock(mutex_);
    sources_.push_back({spec, type, LabelNames(spec), std::move(emit)});
  }

 private:
  struct Source {
    MetricSpec spec;
    prometheus::MetricType type;  // counter or gauge
    std::vector<std::string> labels;
    std::function<void(SampleSink)> emit;
  };

  static prometheus::MetricFamily Read(const Source& source) {
    prometheus::MetricFamily family{
        std::string(source.spec.name), std::string(source.spec.help), source.type, {}};
    source.emit([&](const LabelValues& values, double value) {
      NUMOE_CHECK_EQ(values.size(), source.labels.size()) << source.spec.name;
      prometheus::ClientMetric& sample = family.metric.emplace_back();
      for (size_t i = 0; i < values.size(); ++i) sample.label.push_back({source.labels[i], values[i]});
      (source.type == prometheus::MetricType::Gauge ? sample.gauge.value : sample.counter.value) = value;
    });
    return family;
  }

  const prometheus::Registry& registry_;
  Exemplars exemplars_;
  mutable Mutex mutex_;
  std::vector<std::function<void()>> refreshers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Source> sources_ ABSL_GUARDED_BY(mutex_);
  std::string model_name_
      ABSL_GUARDED_BY(mutex_);  // for the aliases; the aliases are not served if it is empty
};

Metrics::Metrics(MetricOwner daemon) : daemon_(daemon), collector_(std::make_shared<Collector>(registry_)) {
  NUMOE_CHECK(std::has_single_bit(static_cast<uint8_t>(daemon))) << "metrics belong to one daemon";
  for (const MetricSpec& spec : kCounters) {
    auto* family = Has(spec.owner, daemon_) ? Register(prometheus::BuildCounter(), spec, registry_) : nullptr;
    counter_families_.push_back(family);
    counters_.push_back(family != nullptr && spec.labels.empty() ? &family->Add({}) : nullptr);
  }
  for (const MetricSpec& spec : kGauges) {
    auto* family = Has(spec.owner, daemon_) ? Register(prometheus::BuildGauge(), spec, registry_) : nullptr;
    gauge_families_.push_back(family);
    gauges_.push_back(family != nullptr && spec.labels.empty() ? &family->Add({}) : nullptr);
  }
  for (const HistogramSpec& spec : kHistograms) {
    const bool mine = Has(spec.metric.owner, daemon_);
    auto* family = mine ? Register(prometheus::BuildHistogram(), spec.metric, registry_) : nullptr;
    histogram_families_.push_back(family);
    histograms_.push_back(mine && spec.metric.labels.empty() ? &family->Add({}, Boundaries(spec.buckets))
                                                             : nullptr);
  }
  ExposeProcess(*this);
}

Metrics::~Metrics() = default;

void Metrics::FailPlain() {
  NUMOE_CHECK(false) << "a metric with labels is used through With, and only by the daemon that owns it";
  __builtin_unreachable();
}

prometheus::Counter& Metrics::With(CounterId id, const LabelValues& values) {
  const auto index = static_cast<size_t>(id);
  return Existing(counter_families_, index, kCounters[index]).Add(MakeLabels(kCounters[index], values));
}

prometheus::Gauge& Metrics::With(GaugeId id, const LabelValues& values) {
  const auto index = static_cast<size_t>(id);
  return Existing(gauge_families_, index, kGauges[index]).Add(MakeLabels(kGauges[index], values));
}

prometheus::Histogram& Metrics::With(HistogramId id, const LabelValues& values) {
  const auto index = static_cast<size_t>(id);
  const HistogramSpec& spec = kHistograms[index];
  return Existing(histogram_families_, index, spec.metric)
      .Add(MakeLabels(spec.metric, values), Boundaries(spec.buckets));
}

std::vector<double> Metrics::BucketBounds(HistogramId id) {
  return Boundaries(kHistograms[static_cast<size_t>(id)].buckets);
}

void Metrics::OnScrape(std::function<void()> refresh) { collector_->AddRefresher(std::move(refresh)); }

void Metrics::Expose(CounterId id, std::function<void(SampleSink)> source) {
  const auto index = static_cast<size_t>(id);
  // The source replaces the family, because an empty family of the same name would be written a second time.
  registry_.Remove(Existing(counter_families_, index, kCounters[index]));
  counter_families_[index] = nullptr;
  counters_[index] = nullptr;
  collector_->AddSource(kCounters[index], prometheus::MetricType::Counter, std::move(source));
}

void Metrics::Expose(GaugeId id, std::function<void(SampleSink)> source) {
  const auto index = static_cast<size_t>(id);
  registry_.Remove(Existing(gauge_families_, index, kGauges[index]));
  gauge_families_[index] = nullptr;
  gauges_[index] = nullptr;
  collector_->AddSource(kGauges[index], prometheus::MetricType::Gauge, std::move(source));
}

void Metrics::ServeAliases(const std::string& model_name) { collector_->SetModelName(model_name); }

void Metrics::AddExemplar(HistogramId id, double value, const std::string& trace_id) {
  const HistogramSpec& spec = kHistograms[static_cast<size_t>(id)];
  NUMOE_CHECK(spec.metric.labels.empty()) << spec.metric.name << " has labels";
  collector_->exemplars().Add(spec.metric.name, Boundaries(spec.buckets),
                              {.trace_id = trace_id, .value = value, .at = std::chrono::system_clock::now()});
}

std::string Metrics::Serialise() const {
  return prometheus::TextSerializer().Serialize(collector_->Collect());
}

std::string Metrics::SerialiseOpenMetrics() const {
  return ToOpenMetrics(collector_->Collect(), collector_->exemplars());
}

}  // namespace numoe
