// The latency/throughput curve of one or more loads as an SVG file.
//
// Two panels have the same axis of output throughput: one shows the time to first token, the other the time
// per output token, each with median, 95th and 99th percentile, which differ in colour, dash and marker.
// Every point is one load, whose label is at the median's point. A latency axis is logarithmic if its values
// differ by more than a factor of 20. The file has no scripts and no external fonts or images, and is
// readable on light and dark pages (it has its own background for each, by prefers-color-scheme). A pure
// function; text is escaped.
#pragma once

#include <string>
#include <vector>

#include "coordinator/clients/serving_load/load_report.h"

namespace numoe::clients {

struct LoadPoint {
  std::string label;  // "4 req/s"
  LoadReport report;
};

/// Lines connect the `points`, at least one, in their order.
std::string DrawLoadPlot(const std::string& title, const std::string& subtitle,
                         const std::vector<LoadPoint>& points);

}  // namespace numoe::clients
