// OpenMetrics 1.0: the text format of a scrape that has exemplars, which lead from a histogram's bucket to
// the trace of a request in it.
//
// Each bucket of a histogram without labels has its last exemplar. ToOpenMetrics is a pure function;
// Exemplars is thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "prometheus/metric_family.h"

namespace numoe {

class Exemplars {
 public:
  struct Exemplar {
    std::string trace_id;  // "" if there is none
    double value = 0;
    std::chrono::system_clock::time_point at;
  };

  /// `bounds`: the histogram's bounds, sorted; its last bucket is above them.
  void Add(std::string_view histogram, const std::vector<double>& bounds, const Exemplar& exemplar);
  /// Returns one for each bucket; empty if the histogram has had none.
  std::vector<Exemplar> Of(const std::string& histogram) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::vector<Exemplar>, std::less<>> by_histogram_ ABSL_GUARDED_BY(mutex_);
};

/// The names of counters end in _total.
std::string ToOpenMetrics(const std::vector<prometheus::MetricFamily>& families, const Exemplars& exemplars);

}  // namespace numoe
