// LoadReport: the results of a load, with the fields of sglang.bench_serving and vllm bench serve.
//
// Latencies are those of the requests that succeeded. TPOT is (E2E - TTFT) / (output tokens - 1); ITL is the
// time between two pieces of a stream. Percentiles interpolate linearly, and the standard deviation is that
// of a population, as in numpy. max_output_tokens_per_s is the maximum over the whole seconds of the run,
// with a request's tokens spread evenly over its pieces. max_concurrent_requests is the maximum at any
// moment. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "coordinator/clients/serving_load/load_run.h"

namespace numoe::clients {

/// In milliseconds; all are 0 if there are no values.
struct Spread {
  double mean = 0, median = 0, std = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Spread SpreadOf(std::vector<double> values);

struct LoadReport {
  int64_t completed = 0, failed = 0;
  int64_t total_input_tokens = 0, total_output_tokens = 0;
  double duration_s = 0;
  double concurrency = 0;  // the mean: the sum of the latencies divided by the duration
  int64_t max_concurrent_requests = 0;
  double max_output_tokens_per_s = 0;
  double arrival_delay_max_ms = 0;
  bool counted_by_usage = true;  // false if pieces were counted as output tokens for some requests
  Spread ttft, tpot, itl, e2e;
  std::vector<std::pair<std::string, int64_t>>
      errors;  // each message and its number, the most frequent first

  double PerSecond(int64_t count) const {
    return duration_s > 0 ? static_cast<double>(count) / duration_s : 0;
  }
};
LoadReport Summarise(const LoadResult& result);

/// Returns the `arguments` followed by the report's fields.
nlohmann::ordered_json ReportJson(const LoadReport& report, const nlohmann::ordered_json& arguments);
/// Returns what --output-details adds: an array for each field, with one element for each request.
nlohmann::ordered_json DetailsJson(const LoadResult& result);
/// Returns the table that is printed. `heading` has the label and value of its first lines.
std::string ReportText(const LoadReport& report,
                       const std::vector<std::pair<std::string, std::string>>& heading);

}  // namespace numoe::clients
