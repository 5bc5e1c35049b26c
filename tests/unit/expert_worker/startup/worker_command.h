// Reads a worker's options from words, as main does: for the tests of this room.
//
// A word of the command line each; the environment's NUMOE_ variables count as they do for the program. One
// thread at a time.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "expert_worker/startup/worker_options.h"
#include "gtest/gtest.h"

namespace numoe::worker {

inline absl::StatusOr<WorkerCommand> ReadWords(std::vector<std::string> words) {
  words.insert(words.begin(), "numoe-expert-worker");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ReadWorkerOptions(static_cast<int>(argv.size()), argv.data());
}

/// REQUIRES: the words make options.
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
