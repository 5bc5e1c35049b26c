// Reads a worker's options from the words of a command line, as main does, for the tests of this room.
//
// NUMOE_ variables of the environment have the same effect as for the program. One thread at a time.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "expert_worker/startup/worker_options.h"
#include "gtest/gtest.h"

namespace numoe::worker {

/// Returns what ReadWorkerOptions returns for these words after the program's name.
inline absl::StatusOr<WorkerCommand> ReadWords(std::vector<std::string> words) {
  words.insert(words.begin(), "numoe-expert-worker");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ReadWorkerOptions(static_cast<int>(argv.size()), argv.data());
}

/// Returns the options. REQUIRES: the words are neither wrong nor --help, --version or --probe.
inline WorkerOptions OptionsOf(std::vector<std::string> words) {
  absl::StatusOr<WorkerCommand> command = ReadWords(std::move(words));
  EXPECT_TRUE(command.ok()) << command.status();
  if (!command.ok() || !std::holds_alternative<WorkerOptions>(*command)) {
    ADD_FAILURE() << "expected options";
    return {};
  }
  return std::get<WorkerOptions>(*std::move(command));
}

}  // namespace numoe::worker
