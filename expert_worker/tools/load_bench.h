// `numoe-kernel-bench load`: how fast a worker loads its slice of a checkpoint, compared with the machine's
// limit.
//
// Each round loads the slice with the worker's own loader and pool, once from the page cache and once from
// disk after the files were dropped from the cache. Before each load it measures the limit at that moment:
// copying the same number of bytes in memory with all threads into fresh huge pages, or reading the same
// files with large direct reads. Results are medians over the rounds. `memory` is the peak of the process
// above the slice, as a share of the slice.
#pragma once

#include <string>

namespace numoe::worker {

struct LoadBenchOptions {
  std::string model;  // checkpoint or packed model
  std::string format = "auto";
  std::string packed = "map";  // how a packed model's shards are loaded: "map" or "copy"
  int worker_count = 1;        // the slice of worker 0 is loaded; a packed model has its own number
  int threads = 0;
  int rounds = 3;
  bool json = false;
};

/// Prints a table, or one JSON object per line. Returns the program's exit code.
int RunLoadBench(const LoadBenchOptions& options);

}  // namespace numoe::worker
