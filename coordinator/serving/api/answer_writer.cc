#include "coordinator/serving/api/answer_writer.h"

#include "common/base/check.h"

namespace numoe::serving {

TokenUsage CountUsage(const Choice& choice) {
  NUMOE_DCHECK_LE(choice.cached_prompt_tokens(), choice.prompt_tokens());
  NUMOE_DCHECK_LE(choice.reasoning_tokens(), choice.completion_tokens());
  return {.prompt = choice.prompt_tokens(),
          .cached = choice.cached_prompt_tokens(),
          .completion = choice.completion_tokens(),
          .reasoning = choice.reasoning_tokens()};
}

TokenUsage CountUsage(const Choices& choices) {
  TokenUsage sum;
  int prompts = 0;
  for (const auto& choice : choices) {
    const TokenUsage one = CountUsage(*choice);
    sum.completion += one.completion;
    sum.reasoning += one.reasoning;
    if (choice->prompt_index() < prompts) continue;
    NUMOE_DCHECK_EQ(choice->prompt_index(), prompts) << "the choices of a prompt are adjacent";
    ++prompts;
    sum.prompt += one.prompt;
    sum.cached += one.cached;
  }
  return sum;
}

}  // namespace numoe::serving
