// `numoe-bench streams`: measures the cost of many streams at the same time, without the model.
//
// One process has the server with its real routes, an engine that emits a token for each stream at a given
// rate without computing anything (paced_engine.h), and a client that reads all streams (stream_client.h).
// The server's HTTP threads share one core, and everything else uses the others. The benchmark reports how
// much of that core the threads take, how much memory a stream takes, and the time from the engine's emitting
// a token to the client's reading it.
#pragma once

#include <string>

namespace numoe::clients {

struct StreamBenchOptions {
  std::string model;  // folder of the tokeniser and the chat template
  int streams = 2000;
  int tokens_per_second = 1;  // of each stream
  bool together = false;      // all streams get their token at the same moment, as in a step of an engine;
                              // otherwise the tokens are evenly spread
  int prompt_bytes = 40;
  int seconds = 10;
  int http_threads = 2;
  bool json = false;
};

/// Returns the program's exit code.
int RunStreamBench(const StreamBenchOptions& options);

}  // namespace numoe::clients
