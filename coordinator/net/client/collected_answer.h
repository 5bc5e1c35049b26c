// CollectedAnswer: an answer put together from its chunks.
//
// Texts are joined in the order in which they come, calls by their index. Calls numbered beyond
// limits::kAnswerCallsMax are dropped. The finish reason and the usage are the last ones said. One thread.
#pragma once

#include <string>
#include <vector>

#include "coordinator/net/client/answer_chunk.h"

namespace numoe::net {

struct CollectedAnswer {
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;  // JSON, as the model wrote it
  };

  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
  std::string finish_reason;
  std::optional<ReportedUsage> usage;

  void Add(const AnswerChunk& chunk);
};

}  // namespace numoe::net
