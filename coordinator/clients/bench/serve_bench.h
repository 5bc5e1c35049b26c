// `numoe-bench serve`: load on any OpenAI-compatible server, and what its clients see.
//
// Options and report fields are those of sglang.bench_serving and vllm bench serve. Several request rates, or
// several concurrencies, are several loads one after the other: a JSON line and a table each, and together
// the points of --plot. Needs no model in this process; --tokenizer reads one checkpoint's tokenizer.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "common/base/flags.h"

namespace numoe::clients {

struct ServeBenchOptions {
  std::string backend = "numoe";
  std::string base_url;  // empty: host and port
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string model;  // empty: the server's first
  std::string api_key;
  std::vector<std::string> headers;  // KEY=VALUE
  std::string dataset_name = "random";
  std::string dataset_path;
  std::string tokenizer;  // empty: the server counts
  int num_prompts = 1000;
  int random_input_len = 1024;
  int random_output_len = 1024;
  double random_range_ratio = 0;
  int sharegpt_output_len = 0;
  std::vector<double> request_rates = {std::numeric_limits<double>::infinity()};
  double burstiness = 1;
  std::vector<int> max_concurrencies;  // empty: no limit
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

/// The command, with flags that fill in the options.
Flags& AddServeBench(Flags& flags, ServeBenchOptions& options);

/// The program's exit code: 1 where a load had no request that succeeded, 2 where none could be made.
int RunServeBench(const ServeBenchOptions& options);

}  // namespace numoe::clients
