// CollectedAnswer: an answer that is put together from its chunks.
//
// Texts are joined in the order in which they arrive, calls by their index. Calls with an index of
// limits::kAnswerCallsMax or more are dropped. The last finish reason and the last usage count. One thread.
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
