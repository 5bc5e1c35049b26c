// LoadRun: sends planned requests to a server at their times and takes down what comes back when.
//
// Open loop: a request leaves at its planned time however slow the answers are; only max_concurrency, where
// given, holds requests back, and their times count from when they leave. One thread carries all connections;
// how late it was itself is part of the result (arrival_delay_max_s), so that a report can show that the
// client was not the limit. Bodies are made before the clock starts. Every request ends as ok or with an
// error; none is tried again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/clients/serving_load/load_requests.h"
#include "coordinator/net/client/http_client.h"
#include "nlohmann/json.hpp"

namespace numoe::clients {

struct LoadRequestFormat {
  bool chat = false;  // /v1/chat/completions, else /v1/completions
  std::string model;
  bool ignore_eos = true;
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();  // merged into every body
};

struct LoadPlan {
  std::vector<LoadRequest> requests;
  std::vector<double> arrivals;  // [requests] seconds
  int max_concurrency = 0;       // 0: any number
  LoadRequestFormat format;
};

/// Times in seconds; start_s counts from the run's start, the others from start_s.
struct RequestResult {
  bool ok = false;
  std::string error;
  double start_s = 0;
  double ttft_s = 0;           // to the first piece of text, reasoning or call
  double latency_s = 0;        // to the last
  std::vector<double> itls_s;  // between pieces
  int64_t prompt_tokens = 0;   // by the server's usage, else as planned
  int64_t output_tokens = 0;   // by the server's usage, else the number of pieces
  bool has_usage = false;
  std::string text;
};

struct LoadRunProgress {
  size_t done = 0, failed = 0, running = 0, total = 0;
  int64_t pieces = 0;
  double elapsed_s = 0;
};

struct LoadResult {
  std::vector<RequestResult> requests;  // as planned
  double duration_s = 0;
  double arrival_delay_max_s = 0;
};

/// `on_progress` may be empty; it is called a few times a second and at the end.
LoadResult RunLoad(net::HttpClient& client, const LoadPlan& plan,
                   const std::function<void(const LoadRunProgress&)>& on_progress);

std::string RequestBody(const LoadRequest& request, const LoadRequestFormat& format);

}  // namespace numoe::clients
