// The requests of a load: random prompts of given lengths, or prompts from a file.
//
// Random prompts are common English words, chosen so that the counter finds exactly the requested length if
// its vocabulary allows that; two of them share no prefix that is worth caching. Lengths are uniform over
// [max(1, len * range_ratio), len], as in sglang.bench_serving. A file of any size is read row by row: it is
// a JSON array or JSON lines, with rows {"prompt": ..., "output_tokens": N}, {"messages": ...} or ShareGPT's
// {"conversations": [{"value": ...}, ...]}, whose first turn is the prompt and whose second gives the length
// of the answer. ShareGPT rows are used in random order, without those that other clients leave out as well:
// under 4 tokens, a prompt over 1024, over 2048 in all. Custom rows keep their order and are repeated if the
// file has too few. Errors name the file and what is missing.
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

/// Returns [count] requests.
absl::StatusOr<std::vector<LoadRequest>> RandomRequests(const RandomLengths& lengths, size_t count,
                                                        uint64_t seed, TokenCounter& counter);

struct FileRows {
  std::filesystem::path path;
  bool sharegpt = false;  // use ShareGPT's rules of order and length
  int output_len = 0;     // tokens of every answer; 0: as the rows say
};

/// Returns [count] requests, or fewer if a ShareGPT file does not have enough rows.
absl::StatusOr<std::vector<LoadRequest>> FileRequests(const FileRows& rows, size_t count, uint64_t seed,
                                                      TokenCounter& counter);

}  // namespace numoe::clients
