// ChatWriter and TextWriter: OpenAI's objects: chat.completion with its chunks, and text_completion.
//
// Source: OpenAI's API description 2.3.0. Reasoning has both names that clients know (reasoning_content:
// DeepSeek, SGLang; reasoning: vLLM); stop_reason, prompt_logprobs, token_ids and prompt_token_ids are those
// of vLLM. A stream contains only what was asked for, because benchmark clients count every chunk as a token.
// One thread.
#pragma once

#include <set>

#include "coordinator/serving/api/answer_writer.h"

namespace numoe::serving {

nlohmann::ordered_json OpenAiUsage(const TokenUsage& usage, bool reasoning);

class ChatWriter final : public AnswerWriter {
 public:
  ChatWriter(const GenerationRequest& request, AnswerContext context);
  std::string Events(const Choice& choice, const ChoiceStep& step) override;
  std::string End(const Choices& choices) override;
  std::string Whole(const Choices& choices) override;

 private:
  /// `ended` is the step whose last chunk this is and whose token data it contains; null if more chunks
  /// follow.
  nlohmann::ordered_json Chunk(const Choice& choice, nlohmann::ordered_json delta,
                               const ChoiceStep* ended) const;

  const GenerationRequest request_;
  const AnswerContext context_;
  std::set<int> begun_;  // choices that have had their first event
};

class TextWriter final : public AnswerWriter {
 public:
  TextWriter(const GenerationRequest& request, AnswerContext context);
  std::string Events(const Choice& choice, const ChoiceStep& step) override;
  std::string End(const Choices& choices) override;
  std::string Whole(const Choices& choices) override;

 private:
  nlohmann::ordered_json ChoiceJson(const Choice& choice, const std::string& text,
                                    const std::vector<TokenId>& tokens,
                                    const std::vector<execution::TokenLogprobs>& logprobs, int& offset);

  const GenerationRequest request_;
  const AnswerContext context_;
  std::vector<int> offsets_;  // [choice] characters streamed so far, for text_offset
  std::set<int> begun_;       // choices that have had their first event
};

}  // namespace numoe::serving
