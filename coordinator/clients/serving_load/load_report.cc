#include "coordinator/clients/serving_load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "common/base/check.h"

namespace numoe::clients {
namespace {

using nlohmann::ordered_json;

constexpr double kMillisecondsInSecond = 1000;
constexpr size_t kErrorsShown = 5;

double Percentile(const std::vector<double>& sorted, double percent) {
  NUMOE_CHECK(!sorted.empty() && 0 <= percent && percent <= 100);
  NUMOE_DCHECK(std::is_sorted(sorted.begin(), sorted.end()));
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double EndOf(const RequestResult& request) { return request.start_s + request.latency_s; }

double MostTokensInASecond(const std::vector<RequestResult>& requests) {
  std::vector<double> tokens;
  for (const RequestResult& request : requests) {
    if (!request.ok || request.output_tokens == 0) continue;
    const double each =
        static_cast<double>(request.output_tokens) / static_cast<double>(request.itls_s.size() + 1);
    double time = request.start_s + request.ttft_s;
    for (size_t i = 0;; ++i) {
      const auto second = static_cast<size_t>(time);
      if (tokens.size() <= second) tokens.resize(second + 1);
      tokens[second] += each;
      if (i == request.itls_s.size()) break;
      time += request.itls_s[i];
    }
  }
  return tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
}

int64_t MostAtOnce(const std::vector<RequestResult>& requests) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestResult& request : requests) {
    if (!request.ok) continue;
    changes.emplace_back(request.start_s, 1);
    changes.emplace_back(EndOf(request), -1);
  }
  std::sort(changes.begin(), changes.end());  // at the same moment, ends (-1) come before starts
  int64_t running = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, running += change);
  NUMOE_CHECK_EQ(running, 0) << "every request that started has ended";
  return most;
}

void AddSpread(const char* name, const Spread& spread, ordered_json& json) {
  const std::pair<const char*, double> parts[] = {{"mean", spread.mean}, {"median", spread.median},
                                                  {"std", spread.std},   {"p90", spread.p90},
                                                  {"p95", spread.p95},   {"p99", spread.p99}};
  for (const auto& [part, value] : parts) json[fmt::format("{}_{}_ms", part, name)] = value;
}

void AddSection(const char* title, const char* label, const Spread& spread, bool with_max,
                std::string& text) {
  text += fmt::format("{:-^50}\n", title);
  const std::pair<const char*, double> parts[] = {{"Mean", spread.mean}, {"Median", spread.median},
                                                  {"Std", spread.std},   {"P90", spread.p90},
                                                  {"P95", spread.p95},   {"P99", spread.p99}};
  for (const auto& [part, value] : parts)
    text += fmt::format("{:<40} {:<10.2f}\n", fmt::format("{} {} (ms):", part, label), value);
  if (with_max) text += fmt::format("{:<40} {:<10.2f}\n", fmt::format("Max {} (ms):", label), spread.max);
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  Spread spread{.mean = std::accumulate(values.begin(), values.end(), 0.0) / count,
                .median = Percentile(values, 50),
                .p90 = Percentile(values, 90),
                .p95 = Percentile(values, 95),
                .p99 = Percentile(values, 99),
                .max = values.back()};
  NUMOE_CHECK(spread.median <= spread.p90 && spread.p90 <= spread.p95 && spread.p99 <= spread.max);
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.std = std::sqrt(squares / count);
  return spread;
}

LoadReport Summarise(const LoadResult& result) {
  LoadReport report{.duration_s = result.duration_s};
  std::vector<double> ttfts, tpots, itls, latencies;
  std::map<std::string, int64_t> errors;
  for (const RequestResult& request : result.requests) {
    if (!request.ok) {
      ++report.failed;
      ++errors[request.error];
      continue;
    }
    ++report.completed;
    report.total_input_tokens += request.prompt_tokens;
    report.total_output_tokens += request.output_tokens;
    report.counted_by_usage = report.counted_by_usage && request.has_usage;
    ttfts.push_back(request.ttft_s * kMillisecondsInSecond);
    latencies.push_back(request.latency_s * kMillisecondsInSecond);
    for (const double itl : request.itls_s) itls.push_back(itl * kMillisecondsInSecond);
    if (request.output_tokens > 1)
      tpots.push_back((request.latency_s - request.ttft_s) / static_cast<double>(request.output_tokens - 1) *
                      kMillisecondsInSecond);
  }
  const double latency_ms = std::accumulate(latencies.begin(), latencies.end(), 0.0);
  report.concurrency = result.duration_s > 0 ? latency_ms / kMillisecondsInSecond / result.duration_s : 0;
  report.max_concurrent_requests = MostAtOnce(result.requests);
  report.max_output_tokens_per_s = MostTokensInASecond(result.requests);
  report.arrival_delay_max_ms = result.arrival_delay_max_s * kMillisecondsInSecond;
  report.ttft = SpreadOf(std::move(ttfts));
  report.tpot = SpreadOf(std::move(tpots));
  report.itl = SpreadOf(std::move(itls));
  report.e2e = SpreadOf(std::move(latencies));
  NUMOE_CHECK_EQ(static_cast<size_t>(report.completed + report.failed), result.requests.size());
  report.errors.assign(errors.begin(), errors.end());
  std::stable_sort(report.errors.begin(), report.errors.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return report;
}

ordered_json ReportJson(const LoadReport& report, const ordered_json& arguments) {
  ordered_json json = arguments;
  json["duration"] = report.duration_s;
  json["completed"] = report.completed;
  json["failed"] = report.failed;
  json["total_input_tokens"] = report.total_input_tokens;
  json["total_output_tokens"] = report.total_output_tokens;
  json["output_tokens_counted_by"] = report.counted_by_usage ? "usage" : "pieces";
  json["request_throughput"] = report.PerSecond(report.completed);
  json["input_throughput"] = report.PerSecond(report.total_input_tokens);
  json["output_throughput"] = report.PerSecond(report.total_output_tokens);
  json["total_token_throughput"] = report.PerSecond(report.total_input_tokens + report.total_output_tokens);
  AddSpread("e2e_latency", report.e2e, json);
  AddSpread("ttft", report.ttft, json);
  AddSpread("tpot", report.tpot, json);
  AddSpread("itl", report.itl, json);
  json["max_itl_ms"] = report.itl.max;
  json["concurrency"] = report.concurrency;
  json["accept_length"] = nullptr;
  json["max_output_tokens_per_s"] = report.max_output_tokens_per_s;
  json["max_concurrent_requests"] = report.max_concurrent_requests;
  json["max_arrival_delay_ms"] = report.arrival_delay_max_ms;
  return json;
}

ordered_json DetailsJson(const LoadResult& result) {
  ordered_json json;
  for (const char* name :
       {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"})
    json[name] = ordered_json::array();
  for (const RequestResult& request : result.requests) {
    json["input_lens"].push_back(request.prompt_tokens);
    json["output_lens"].push_back(request.ok ? request.output_tokens : 0);
    json["ttfts"].push_back(request.ttft_s);
    json["itls"].push_back(request.itls_s);
    json["start_times"].push_back(request.start_s);
    json["generated_texts"].push_back(request.text);
    json["errors"].push_back(request.error);
  }
  return json;
}

std::string ReportText(const LoadReport& report,
                       const std::vector<std::pair<std::string, std::string>>& heading) {
  std::string text = fmt::format("{:=^50}\n", " Serving Benchmark Result ");
  const auto line = [&](const std::string& label, const std::string& value) {
    text += fmt::format("{:<40} {:<10}\n", label, value);
  };
  const auto rate = [&](const char* label, double value) { line(label, fmt::format("{:.2f}", value)); };
  for (const auto& [label, value] : heading) line(label, value);
  line("Successful requests:", std::to_string(report.completed));
  if (report.failed > 0) line("Failed requests:", std::to_string(report.failed));
  rate("Benchmark duration (s):", report.duration_s);
  line("Total input tokens:", std::to_string(report.total_input_tokens));
  line(report.counted_by_usage ? "Total generated tokens:" : "Total generated pieces (no usage sent):",
       std::to_string(report.total_output_tokens));
  rate("Request throughput (req/s):", report.PerSecond(report.completed));
  rate("Input token throughput (tok/s):", report.PerSecond(report.total_input_tokens));
  rate("Output token throughput (tok/s):", report.PerSecond(report.total_output_tokens));
  rate("Peak output token throughput (tok/s):", report.max_output_tokens_per_s);
  rate("Total token throughput (tok/s):",
       report.PerSecond(report.total_input_tokens + report.total_output_tokens));
  rate("Concurrency:", report.concurrency);
  line("Peak concurrent requests:", std::to_string(report.max_concurrent_requests));
  rate("Latest departure after its time (ms):", report.arrival_delay_max_ms);
  AddSection("End-to-End Latency", "E2E Latency", report.e2e, false, text);
  AddSection("Time to First Token", "TTFT", report.ttft, false, text);
  AddSection("Time per Output Token (excl. 1st token)", "TPOT", report.tpot, false, text);
  AddSection("Inter-Token Latency", "ITL", report.itl, true, text);
  text += fmt::format("{:=^50}\n", "");
  for (size_t i = 0; i < std::min(report.errors.size(), kErrorsShown); ++i)
    text += fmt::format("failed {}x: {}\n", report.errors[i].second, report.errors[i].first);
  return text;
}

}  // namespace numoe::clients
