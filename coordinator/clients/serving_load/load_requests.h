// The requests of a load: random prompts of given lengths, or prompts from a file.
//
// Random prompts are common English words, drawn so that the counter finds exactly the length asked for where
// its vocabulary allows that; two of them share no prefix worth caching. Lengths are uniform over
// [max(1, len * range_ratio), len], as sglang.bench_serving has it. Files are read one row at a time, however
// large: a JSON array or JSON lines, each row {"prompt": ..., "output_tokens": N}, {"messages": ...} or
// ShareGPT's {"conversations": [{"value": ...}, ...]}, whose first turn is asked and whose second says how
// long an answer was. ShareGPT rows are taken in random order and those that other clients leave out are left
// out too: under 4 tokens, over 1024 asked, over 2048 in all. Custom rows keep their order and start again at
// the end of the file. Errors name the file and what is missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/clients/serving_load/token_counter.h"

namespace numoe::clients {

struct LoadRequest {
  std::string prompt;
  int prompt_tokens = 0;
  int output_tokens = 0;  // max_tokens
};

struct RandomLengths {
  int input_len = 1024;
  int output_len = 1024;
  double range_ratio = 0;  // 0 to 1
};

/// [count]
absl::StatusOr<std::vector<LoadRequest>> RandomRequests(const RandomLengths& lengths, size_t count,
                                                        uint64_t seed, TokenCounter& counter);

struct FileRows {
  std::filesystem::path path;
  bool sharegpt = false;  // ShareGPT's rules of order and length
  int output_len = 0;     // of every answer; 0: as the rows say
};

/// [count], fewer where a ShareGPT file has no more that fit.
absl::StatusOr<std::vector<LoadRequest>> FileRequests(const FileRows& rows, size_t count, uint64_t seed,
                                                      TokenCounter& counter);

}  // namespace numoe::clients
