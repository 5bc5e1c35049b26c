// LoadRun: sends planned requests to a server at their times and records the answers with their times.
//
// The loop is open: a request is sent at its planned time, however slow the answers are. Only
// max_concurrency, if given, delays requests, whose times then count from the moment at which they are sent.
// One thread serves all connections; its own delay is part of the result (arrival_delay_max_s), so that a
// report can show that the client was not the limit. Bodies are built before the clock starts. Every request
// ends as ok or with an error, and none is tried again.
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
  bool chat = false;  // /v1/chat/completions, otherwise /v1/completions
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

/// All times are in seconds; start_s counts from the start of the run, the others from start_s.
struct RequestResult {
  bool ok = false;
  std::string error;
  double start_s = 0;
  double ttft_s = 0;           // to the first piece of text, reasoning or call
  double latency_s = 0;        // to the last piece
  std::vector<double> itls_s;  // between pieces
  int64_t prompt_tokens = 0;   // from the server's usage, otherwise as planned
  int64_t output_tokens = 0;   // from the server's usage, otherwise the number of pieces
  bool has_usage = false;
  std::string text;
};

struct LoadRunProgress {
  size_t done = 0, failed = 0, running = 0, total = 0;
  int64_t pieces = 0;
  double elapsed_s = 0;
};

struct LoadResult {
  std::vector<RequestResult> requests;  // in the order of the plan
  double duration_s = 0;
  double arrival_delay_max_s = 0;
};

/// Calls `on_progress`, unless it is empty, a few times per second and at the end.
LoadResult RunLoad(net::HttpClient& client, const LoadPlan& plan,
                   const std::function<void(const LoadRunProgress&)>& on_progress);

std::string RequestBody(const LoadRequest& request, const LoadRequestFormat& format);

}  // namespace numoe::clients
