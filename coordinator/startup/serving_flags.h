// ServingFlags: the coordinator's flags as text, read from the command line, the environment and the file.
//
// ParseServingFlags declares every flag with its help text and its range, reads the flags, and finds those
// that change nothing when combined with the others, whatever the machine and the model
// (common/base/unused_flags.h). serving_options.h converts the texts into values. The main thread calls it
// before any other thread starts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/startup/serving_options.h"

namespace numoe::startup {

/// The options hold the flags whose text needs no conversion; the other members are texts to be converted.
struct ServingFlags {
  ServingOptions options;
  std::string data_path = "auto";
  std::string shared_memory_group;
  std::vector<std::string> locked_sampling;
  std::string kv_cache_dtype = "auto";
  bool disable_prefix_caching = false;
  std::string two_batch_overlap = "auto";
  std::string isa = "auto";
  std::string activations = "auto";
  std::string dense_format = "auto";
  std::string device = "auto";
  std::string gpu_memory;
  std::string num_gpu_experts = "0";
  std::string gpu_prefill_token_threshold = "off";
  absl::Status unused;  // refuses a flag that was typed and changes nothing
};

/// Returns the exit code with which to leave at once, or -1 to go on.
int ParseServingFlags(int argc, char** argv, ServingFlags& flags);

/// Whether the address of a worker is unix:PATH.
bool IsUnixAddress(const std::string& address);

}  // namespace numoe::startup
