// Inspect: what a checkpoint or a folder of packed shards holds, and what a worker of it takes, as text.
//
// Of a checkpoint: how its experts are stored, their bytes and those of the rest, and for each format the
// memory of one of N workers beside what this machine has. Of packed shards: what they are for and which are
// there; with `verify`, whether every checksum is right. Reads headers only, but for `verify`.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace numoe::worker {

struct InspectOptions {
  std::string model;  // checkpoint or folder of shards
  int workers = 1;
  int threads = 0;      // for verify; 0: every CPU
  bool verify = false;  // packed shards: read them all
};

/// A report that ends in a new line. DataLoss or FailedPrecondition when packed shards are damaged or
/// missing.
absl::StatusOr<std::string> Inspect(const InspectOptions& options);

}  // namespace numoe::worker
