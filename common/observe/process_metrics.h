// ProcessMetrics: what this process takes of the machine, as every Prometheus client names it.
//
// CPU time, memory, open files and the time of its start, read from /proc at each scrape. A value that the
// kernel does not tell is absent.
#pragma once

#include <optional>
#include <string_view>

#include "common/observe/metrics.h"

namespace numoe {

struct ProcessUse {
  std::optional<double> cpu_s;
  std::optional<double> start_s;  // since 1970
  std::optional<double> resident_bytes;
  std::optional<double> virtual_bytes;
  std::optional<double> open_files;
  std::optional<double> open_files_max;
};

/// Of /proc/self/stat: the times in ticks since the boot, which was `boot_s` after 1970.
ProcessUse ReadStat(std::string_view stat, std::optional<double> boot_s);
/// Of the process that calls.
ProcessUse ReadOwnUse();

/// Serves them with the daemon's metrics.
void ExposeProcess(Metrics& metrics);

}  // namespace numoe
