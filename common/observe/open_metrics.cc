#include "common/observe/open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace numoe {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Bounds are labels, so there must be only one way to write them: with a point or an exponent.
std::string Bound(double value) {
  const std::string text = Number(value);
  return std::isinf(value) || text.find_first_of(".e") != std::string::npos ? text : text + ".0";
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Braced(const Labels& labels, std::string_view le = "") {
  std::string text;
  for (const auto& label : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", label.name, Escaped(label.value));
  if (!le.empty()) text += fmt::format("{}le=\"{}\"", text.empty() ? "" : ",", le);
  return text.empty() ? "" : "{" + text + "}";
}

void AppendHistogram(const prometheus::MetricFamily& family, const prometheus::ClientMetric& metric,
                     const std::vector<Exemplars::Exemplar>& exemplars, std::string& out) {
  const auto& buckets = metric.histogram.bucket;
  NUMOE_CHECK(!buckets.empty() && std::isinf(buckets.back().upper_bound)) << family.name;
  for (size_t i = 0; i < buckets.size(); ++i) {
    out += fmt::format("{}_bucket{} {}", family.name, Braced(metric.label, Bound(buckets[i].upper_bound)),
                       buckets[i].cumulative_count);
    if (i < exemplars.size() && !exemplars[i].trace_id.empty()) {
      const double seconds = std::chrono::duration<double>(exemplars[i].at.time_since_epoch()).count();
      out += fmt::format(" # {{trace_id=\"{}\"}} {} {:.3f}", exemplars[i].trace_id,
                         Number(exemplars[i].value), seconds);
    }
    out += '\n';
  }
  out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", family.name, Braced(metric.label),
                     Number(metric.histogram.sample_sum), family.name, Braced(metric.label),
                     metric.histogram.sample_count);
}

}  // namespace

void Exemplars::Add(std::string_view histogram, const std::vector<double>& bounds, const Exemplar& exemplar) {
  NUMOE_CHECK(!bounds.empty() && std::is_sorted(bounds.begin(), bounds.end()));
  NUMOE_CHECK_LE(exemplar.trace_id.size(), 32) << "an exemplar's labels have 128 characters at most";
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), exemplar.value) - bounds.begin();
  const MutexLock lock(mutex_);
  std::vector<Exemplar>& all = by_histogram_[std::string(histogram)];
  all.resize(bounds.size() + 1);
  all[static_cast<size_t>(bucket)] = exemplar;
}

std::vector<Exemplars::Exemplar> Exemplars::Of(const std::string& histogram) const {
  const MutexLock lock(mutex_);
  const auto found = by_histogram_.find(histogram);
  return found == by_histogram_.end() ? std::vector<Exemplar>() : found->second;
}

std::string ToOpenMetrics(const std::vector<prometheus::MetricFamily>& families, const Exemplars& exemplars) {
  std::string out;
  for (const prometheus::MetricFamily& family : families) {
    const bool counter = family.type == prometheus::MetricType::Counter;
    const bool histogram = family.type == prometheus::MetricType::Histogram;
    NUMOE_CHECK(counter || histogram || family.type == prometheus::MetricType::Gauge) << family.name;
    constexpr std::string_view kTotal = "_total";
    NUMOE_CHECK(!counter || family.name.ends_with(kTotal)) << family.name;
    const std::string_view name =
        std::string_view(family.name).substr(0, family.name.size() - (counter ? kTotal.size() : 0));
    out += fmt::format("# TYPE {} {}\n# HELP {} {}\n", name,
                       counter     ? "counter"
                       : histogram ? "histogram"
                                   : "gauge",
                       name, Escaped(family.help));
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (histogram) {
        const bool plain = metric.label.empty();
        AppendHistogram(family, metric,
                        plain ? exemplars.Of(family.name) : std::vector<Exemplars::Exemplar>(), out);
      } else {
        out += fmt::format("{}{} {}\n", family.name, Braced(metric.label),
                           Number(counter ? metric.counter.value : metric.gauge.value));
      }
    }
  }
  return out + "# EOF\n";
}

}  // namespace numoe
