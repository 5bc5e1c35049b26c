// Anthropic's message: blocks of thinking, text and tool_use in the order in which the model said them.
//
// Source: Anthropic's Messages API (version 2023-06-01) and its streaming. A call whose arguments are no JSON
// object (cut off, or the model's mistake) streams them as they are; in a whole message they are the string
// of {"INVALID_JSON": ...}, as Anthropic has it. Signatures are empty: thinking may be given back unproven. A
// stream begins with the first token, and while thinking that is not shown goes on, it is kept open by pings.
// One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "coordinator/serving/api/answer_writer.h"

namespace numoe::serving {

class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(const GenerationRequest& request, AnswerContext context);
  std::string Events(const Choice& choice, const ChoiceStep& step) override;
  std::string End(const Choices& choices) override;
  std::string Failure(const net::ApiError& error) override;
  std::string Whole(const Choices& choices) override;

 private:
  std::string Begin(const Choice& choice);
  std::string Delta(const text::AnswerDelta& delta);
  std::string EndBlock();

  using Clock = std::chrono::steady_clock;

  const AnswerContext context_;
  Clock::time_point told_ = Clock::now();
  bool begun_ = false;
  std::optional<text::AnswerDelta::Kind> open_;  // the block that is being said; kCallBegin for a call
  int index_ = 0;                                // its place, or the next one's
};

}  // namespace numoe::serving
