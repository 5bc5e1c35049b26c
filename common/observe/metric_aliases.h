// The coordinator's metrics under the names of vLLM and SGLang (NUMOE_METRIC_ALIASES in metric_list.h).
//
// A pure function of what a scrape has collected. Each alias has the labels by which the dashboards of its
// project select: model_name, and vLLM's engine="0" or SGLang's engine_type="unified".
#pragma once

#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace numoe {

/// Adds to `families` the metrics that have aliases, under the names of these.
void AddAliases(std::vector<prometheus::MetricFamily>& families, const std::string& model_name);

}  // namespace numoe
