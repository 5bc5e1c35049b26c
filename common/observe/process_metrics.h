// ProcessMetrics: the resources that this process uses, under the names of every Prometheus client.
//
// CPU time, memory, open files and the start time are read from /proc at each scrape. A value that the kernel
// does not report is absent.
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

/// Reads /proc/self/stat: times are in ticks since the boot, which was `boot_s` after 1970.
ProcessUse ReadStat(std::string_view stat, std::optional<double> boot_s);
/// Reads the values of the calling process.
ProcessUse ReadOwnUse();

/// Serves these values with the daemon's metrics.
void ExposeProcess(Metrics& metrics);

}  // namespace numoe
