#include "coordinator/text/parsing/answer.h"

#include <utility>

#include "common/base/check.h"

namespace numoe::text {

void ParsedAnswer::Add(const AnswerDelta& delta) {
  switch (delta.kind) {
    case AnswerDelta::Kind::kReasoning:
      reasoning += delta.text;
      break;
    case AnswerDelta::Kind::kContent:
      content += delta.text;
      break;
    case AnswerDelta::Kind::kCallBegin:
      NUMOE_CHECK_EQ(delta.call, static_cast<int>(calls.size()));
      calls.push_back({delta.id, delta.name, ""});
      break;
    case AnswerDelta::Kind::kArguments:
      NUMOE_CHECK_EQ(delta.call + 1, static_cast<int>(calls.size()));
      calls.back().arguments += delta.text;
      break;
  }
}

void Append(AnswerDelta delta, std::vector<AnswerDelta>& deltas) {
  NUMOE_DCHECK(delta.kind == AnswerDelta::Kind::kCallBegin ? !delta.name.empty() : !delta.text.empty());
  const bool joins = delta.kind != AnswerDelta::Kind::kCallBegin && !deltas.empty() &&
                     deltas.back().kind == delta.kind && deltas.back().call == delta.call;
  if (joins) {
    deltas.back().text += delta.text;
  } else {
    deltas.push_back(std::move(delta));
  }
}

}  // namespace numoe::text
