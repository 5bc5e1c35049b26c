// The coordinator's flags, in the words that operators of vLLM and SGLang know.
//
// ParseCoordinatorFlags reads command line, environment and file (common/base/flags.h); CompleteFlags checks
// what no single flag shows and fills in what follows from others: INVALID_ARGUMENT names the flags.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/observe/logging.h"
#include "common/transport/tls_identity.h"
#include "coordinator/http/server.h"

namespace numoe {

struct CoordinatorFlags {
  std::string model;
  std::string served_model_name;
  std::vector<std::string> workers;
  TlsFiles worker_tls{.flag_prefix = "worker-"};
  std::string data_path = "auto";
  std::string ring_group_name;
  std::optional<gid_t> ring_group;  // the same, looked up
  std::string port_file;
  AccessOptions access;
  std::vector<std::string> locked_sampling;
  std::vector<std::pair<std::string, double>> locked;  // the same, read
  double request_timeout_s = 0;
  std::string reasoning_parser = "auto";
  std::string tool_call_parser = "auto";
  ServerOptions server;
  int max_num_seqs = 32;
  int max_num_batched_tokens = 2048;
  int64_t max_model_len = 0;
  int64_t max_total_tokens = 0;
  int queue_max = 256;
  int64_t worker_start_timeout_ms = 60'000;
  int64_t worker_deadline_ms = 60'000;
  int64_t drain_timeout_ms = 30'000;
  int64_t live_deadline_ms = 300'000;
  bool deterministic = false;
  bool disable_prefix_caching = false;
  bool share_prefix_cache = false;
  double decode_stretch_max = 2;
  int deferred_experts = 0;
  std::string two_batch_overlap = "auto";
  int overlap_tokens = 0;  // the same, read: ModelOptions::overlap_tokens
  std::string isa = "auto";
  std::string activations = "auto";
  std::string dense_format = "auto";
  std::string kv_cache_dtype = "auto";
  int threads = 0;
  std::string device = "auto";
  std::string num_gpu_experts = "0";  // or "auto"
  std::string gpu_prefill_token_threshold = "off";
  int gpu_prefill_tokens = 0;  // the same, read; 0: off, -1: measured at start
  std::string expert_heat_file;
  std::string gpu_memory;  // as given: "80GiB"
  bool plan = false;
  bool core_dumps = false;
  std::string memory_reservations = "auto";
  std::string otlp_endpoint;
  double trace_ratio = 1;
  LogOptions log{.program = "numoe-coordinator"};
};

/// Exit code to leave with at once, or -1 to go on.
int ParseCoordinatorFlags(int argc, char** argv, CoordinatorFlags& f);
absl::Status CompleteFlags(CoordinatorFlags& f);

}  // namespace numoe
