// Parsing words as a program does: its exit code and what it said, for tests of flags.
//
// A test owns the Flags and the values that they fill in. One thread at a time: the streams are captured for
// the whole process. Without errors of its own.
#pragma once

#include <string>
#include <vector>

#include "common/base/flags.h"
#include "gtest/gtest.h"

namespace numoe {

struct ParsedFlags {
  int code = 0;  // -1: the program goes on
  std::string out, error;
};

inline ParsedFlags ParseWords(Flags& flags, std::vector<std::string> words) {
  std::string program = "program";
  std::vector<char*> argv = {program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  ParsedFlags parsed;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  parsed.code = flags.Parse(static_cast<int>(argv.size()), argv.data());
  parsed.error = ::testing::internal::GetCapturedStderr();
  parsed.out = ::testing::internal::GetCapturedStdout();
  return parsed;
}

}  // namespace numoe
