// MessagesWriter: Anthropic's message, with blocks of thinking, text and tool_use in the order of the model.
//
// Source: Anthropic's Messages API (version 2023-06-01) and its streaming. If the arguments of a call are not
// a JSON object (cut off, or a mistake of the model), a stream contains them unchanged; a complete message
// contains them as the string of {"INVALID_JSON": ...}, as Anthropic does. Signatures are empty, so clients
// may return thinking without proof. A stream begins with the first token; while thinking that is not shown
// continues, pings keep it open. One thread.
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
  Clock::time_point last_event_ = Clock::now();  // when the last event was written
  bool begun_ = false;
  std::optional<text::AnswerDelta::Kind> open_;  // the kind of the unfinished block; kCallBegin for a call
  int index_ = 0;                                // the index of the unfinished block, or of the next one
};

}  // namespace numoe::serving
