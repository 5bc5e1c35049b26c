// `numoe-bench streams`: what many streams at once cost beside the model.
//
// The server with its real routes, over an engine that draws a token for each stream at a given rate out of
// nothing (paced_engine.h), and a client that reads them all (stream_client.h), in one process. The server's
// HTTP threads share one core, everything else has the others. Says how much of that core they take, what a
// stream holds in memory, and how late a token is at its client, counted from the engine's handing it out.
#pragma once

#include <string>

namespace numoe::clients {

struct StreamBenchOptions {
  std::string model;  // whose tokeniser and chat template are used
  int streams = 2000;
  int tokens_per_second = 1;  // of each stream
  bool together = false;      // a token for every stream at the same moment, as a step of an engine that runs
                              // all of them; else evenly spread
  int prompt_bytes = 40;
  int seconds = 10;
  int http_threads = 2;
  bool json = false;
};

/// The program's exit code.
int RunStreamBench(const StreamBenchOptions& options);

}  // namespace numoe::clients
