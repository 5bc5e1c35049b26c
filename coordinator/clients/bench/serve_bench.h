// `numoe-bench serve`: sends load to any OpenAI-compatible server and reports what its clients see.
//
// Options and report fields are those of sglang.bench_serving and vllm bench serve. Several request rates, or
// several concurrencies, are run as several loads one after the other; each has a JSON line and a table, and
// is a point of --plot. The process needs no model; --tokenizer reads the tokenizer of a checkpoint.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/flags.h"

namespace numoe::clients {

struct ServeBenchOptions {
  std::string backend = "numoe";
  std::string base_url;  // if empty, host and port are used
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string model;  // if empty, the server's first model is used
  std::string api_key;
  std::vector<std::string> headers;  // KEY=VALUE
  std::string dataset_name = "random";
  std::string dataset_path;
  std::string tokenizer;  // if empty, the server counts the tokens
  int num_prompts = 1000;
  int random_input_len = 1024;
  int random_output_len = 1024;
  double random_range_ratio = 0;
  int sharegpt_output_len = 0;
  std::vector<double> request_rates = {std::numeric_limits<double>::infinity()};
  double burstiness = 1;
  std::vector<int> max_concurrencies;  // no limit if empty
  uint64_t seed = 1;
  int warmup_requests = 1;
  bool flush_cache = false;
  bool disable_ignore_eos = false;
  bool disable_tqdm = false;
  std::string extra_request_body;
  std::string output_file;
  bool output_details = false;
  std::string plot;
};

/// Adds the command with flags that fill in the options, and returns it.
Flags& AddServeBench(Flags& flags, ServeBenchOptions& options);

/// INVALID_ARGUMENT names a flag that changes nothing when combined with the others. `serve` is the command.
absl::Status CheckServeFlags(const Flags& serve, const ServeBenchOptions& options);

/// Returns the program's exit code: 1 if no request of a load succeeded, 2 if no load could be run.
int RunServeBench(const ServeBenchOptions& options);

}  // namespace numoe::clients
