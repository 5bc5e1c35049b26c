// Reads the coordinator's options from words, as main does: for the tests of this room.
//
// Each string is one word of the command line; NUMOE_ variables of the environment count as they do for the
// program. One thread at a time.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/startup/serving_options.h"
#include "gtest/gtest.h"

namespace numoe::startup {

inline absl::StatusOr<ServingCommand> ReadServingWords(std::vector<std::string> words) {
  words.insert(words.begin(), "numoe-coordinator");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ReadServingOptions(static_cast<int>(argv.size()), argv.data());
}

/// Adds a model and a worker's address before the words. REQUIRES: the words make options.
inline ServingOptions ServingOptionsOf(std::vector<std::string> words,
                                       const std::string& workers = "unix:/nobody") {
  words.insert(words.begin(), {"--model", "tests/golden/data/tiny-chat", "--workers", workers});
  absl::StatusOr<ServingCommand> command = ReadServingWords(std::move(words));
  EXPECT_TRUE(command.ok()) << command.status();
  if (!command.ok() || !std::holds_alternative<ServingOptions>(*command)) {
    ADD_FAILURE() << "expected options";
    return {};
  }
  return std::get<ServingOptions>(*std::move(command));
}

}  // namespace numoe::startup
