#include "common/observe/metric_reference.h"

#include <fmt/format.h>

#include <string_view>

#include "common/observe/metrics.h"

namespace numoe {
namespace {

struct Row {
  std::string_view name, type, daemon, labels, help;
};

// Shadows the enumerators of MetricOwner: the list names its daemons by them.
constexpr std::string_view kCoordinator = "coordinator", kWorker = "worker", kBoth = "both",
                           kRouter = "router", kServers = "coordinator, router", kAll = "all";

#define NUMOE_COUNTER_ROW(id, name, owner, labels, help) {name, "counter", owner, labels, help},
#define NUMOE_GAUGE_ROW(id, name, owner, labels, help) {name, "gauge", owner, labels, help},
#define NUMOE_HISTOGRAM_ROW(id, name, owner, labels, buckets, help) {name, "histogram", owner, labels, help},
constexpr Row kRows[] = {NUMOE_METRICS(NUMOE_COUNTER_ROW, NUMOE_GAUGE_ROW, NUMOE_HISTOGRAM_ROW)};

struct AliasRow {
  std::string_view name, ours, label, alias_label;
};
#define NUMOE_ALIAS_ROW(name, ours, label, alias_label) {name, ours, label, alias_label},
constexpr AliasRow kAliasRows[] = {NUMOE_METRIC_ALIASES(NUMOE_ALIAS_ROW)};

}  // namespace

std::string MetricReference() {
  std::string text =
      "# Metrics\n\n"
      "Generated from `common/observe/metric_list.h`; do not edit. The coordinator and the router serve\n"
      "their metrics at `/metrics` on the port of their API, a worker on `--metrics-port`. A metric without\n"
      "labels exists from the start of the daemon. One with labels has a series for each set of labels that\n"
      "has occurred; the series of workers and of reasons exist from the start. A scraper gets Prometheus'\n"
      "text format or OpenMetrics 1.0, and gzip, as its Accept headers ask. Only OpenMetrics has exemplars:\n"
      "they name the traces of requests in the buckets of `numoe_request_duration_seconds` and\n"
      "`numoe_time_to_first_token_seconds`.\n\n"
      "| metric | type | daemon | labels | what it is |\n|---|---|---|---|---|\n";
  for (const Row& row : kRows)
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, row.type, row.daemon, row.labels, row.help);
  text +=
      "\n## Names of vLLM and SGLang\n\n"
      "The coordinator also serves these metrics under the names that dashboards, autoscalers and endpoint\n"
      "pickers know, with the labels `model_name` and `engine=\"0\"` (vLLM) or `engine_type=\"unified\"`\n"
      "(SGLang).\n\n"
      "| theirs | NUMoE's | labels renamed |\n|---|---|---|\n";
  for (const AliasRow& alias : kAliasRows) {
    const std::string renamed =
        alias.label.empty() ? "" : fmt::format("{} is {}", alias.label, alias.alias_label);
    text += fmt::format("| `{}` | `{}` | {} |\n", alias.name, alias.ours, renamed);
  }
  return text;
}

}  // namespace numoe
