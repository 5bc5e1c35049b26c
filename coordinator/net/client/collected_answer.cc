#include "coordinator/net/client/collected_answer.h"

#include "common/base/check.h"
#include "coordinator/net/client/client_limits.h"

namespace numoe::net {

void CollectedAnswer::Add(const AnswerChunk& chunk) {
  reasoning += chunk.reasoning;
  content += chunk.content;
  for (const AnswerChunk::CallPart& part : chunk.calls) {
    const auto index = static_cast<size_t>(part.index);
    NUMOE_DCHECK_GE(part.index, 0);
    if (index >= limits::kAnswerCallsMax) continue;
    if (calls.size() <= index) calls.resize(index + 1);
    Call& call = calls[index];
    if (!part.id.empty()) call.id = part.id;
    call.name += part.name;
    call.arguments += part.arguments;
  }
  if (!chunk.finish_reason.empty()) finish_reason = chunk.finish_reason;
  if (chunk.usage) usage = chunk.usage;
}

}  // namespace numoe::net
