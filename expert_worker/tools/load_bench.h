// `numoe-kernel-bench load`: how fast a worker's slice of a checkpoint loads, beside what the machine can do.
//
// Each round loads the slice with the worker's own loader and pool, once from the page cache and once from
// disk with the files dropped from it, and measures the limit of the same moment before it: copying as many
// bytes in memory by all threads into fresh huge pages, or reading the same files by large direct reads.
// Medians over rounds. `memory` is the process's peak above the slice, as a share of the slice.
#pragma once

#include <string>

namespace numoe::worker {

struct LoadBenchOptions {
  std::string model;  // checkpoint or packed model
  std::string format = "auto";
  std::string packed = "map";  // a packed model's shards: "map" or "copy"
  int worker_count = 1;        // the slice of worker 0 is loaded; a packed model brings its own
  int threads = 0;
  int rounds = 3;
  bool json = false;
};

/// Prints a table, or one JSON object per line. The program's exit code.
int RunLoadBench(const LoadBenchOptions& options);

}  // namespace numoe::worker
