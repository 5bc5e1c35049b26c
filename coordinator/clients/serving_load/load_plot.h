// The latency/throughput curve of one or more loads as an SVG file.
//
// Two panels over the same axis of output throughput: time to first token, and time per output token; median,
// 95th and 99th percentile each, told apart by colour, dash and marker. Every point is one load and bears its
// label at the median's. A latency axis is logarithmic where its values spread over more than a factor of 20.
// No scripts, no fonts or images of others; readable on light and dark pages (prefers-color-scheme, and a
// background of its own). Pure function; text is escaped.
#pragma once

#include <string>
#include <vector>

#include "coordinator/clients/serving_load/load_report.h"

namespace numoe::clients {

struct LoadPoint {
  std::string label;  // "4 req/s"
  LoadReport report;
};

/// `points` in the order in which the lines join them; at least one.
std::string DrawLoadPlot(const std::string& title, const std::string& subtitle,
                         const std::vector<LoadPoint>& points);

}  // namespace numoe::clients
