// NativeWriter: SGLang's answer to /generate: {text, output_ids, meta_info}, or a list of them for a list.
//
// Source: SGLang 0.5. Each event of a stream contains all of the text so far, as SGLang's clients expect, and
// its position in the list as `index`. Log-probabilities are [logprob, id, null]. One thread.
#pragma once

#include <chrono>

#include "coordinator/serving/api/answer_writer.h"

namespace numoe::serving {

class NativeWriter final : public AnswerWriter {
 public:
  NativeWriter(const GenerationRequest& request, AnswerContext context);
  std::string Events(const Choice& choice, const ChoiceStep& step) override;
  std::string End(const Choices&) override { return kSseDone; }
  std::string Whole(const Choices& choices) override;

 private:
  nlohmann::ordered_json Answer(const Choice& choice) const;
  nlohmann::ordered_json FinishJson(const Choice& choice) const;
  void AddLogprobs(const Choice& choice, nlohmann::ordered_json& meta) const;
  void AddTokens(const std::vector<execution::TokenLogprobs>& tokens, size_t first,
                 nlohmann::ordered_json& chosen, nlohmann::ordered_json& top) const;
  nlohmann::ordered_json Entry(const execution::TokenLogprob& one) const;
  nlohmann::ordered_json TextOf(TokenId token) const;

  const GenerationRequest request_;
  const AnswerContext context_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace numoe::serving
