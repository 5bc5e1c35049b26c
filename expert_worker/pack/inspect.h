// Inspect: describes a checkpoint or a folder of packed shards, and the memory that its workers need, as
// text.
//
// For a checkpoint: how its experts are stored, their bytes and those of everything else, and for each format
// the memory of one of N workers, compared with this machine's. For packed shards: what they were packed for
// and which exist; with `verify` also whether every checksum is right. It reads only headers, except with
// `verify`.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace numoe::worker {

struct InspectOptions {
  std::string model;  // checkpoint or folder of shards
  int workers = 1;
  int threads = 0;      // for verify; 0 means every CPU
  bool verify = false;  // read all packed shards
};

/// Returns a report that ends in a new line. DataLoss or FailedPrecondition if packed shards are damaged or
/// missing.
absl::StatusOr<std::string> Inspect(const InspectOptions& options);

}  // namespace numoe::worker
