// The metrics of both daemons as a Markdown document: deploy/metrics.md, from metric_list.h alone.
//
// A pure function; a test compares it with the file and says how to write it again.
#pragma once

#include <string>

namespace numoe {

std::string MetricReference();

}  // namespace numoe
