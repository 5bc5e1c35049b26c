// Choice: one answer while it is generated; it stands between the engine and the writer of the answer.
//
// Turns token events into deltas of text: detokenised, and divided into reasoning, content and tool calls. A
// prompt that is completed without a chat template is answered with raw text. Stop strings are searched only
// in the content, not in the reasoning or in calls, and not before min_tokens. finish_reason is "length"
// whenever max_tokens ended the answer, otherwise "tool_calls" if it calls tools that tool_choice did not
// name, otherwise "stop". At the request's deadline it is "length" as well, with the stop reason "timeout".
// Used only on the connection's executor.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/stop_matcher.h"
#include "coordinator/text/parsing/output_parser.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::serving {

/// The stop reason of an answer that was ended by its request's deadline.
inline constexpr char kTimedOut[] = "timeout";

/// What a choice needs in addition to its request. Tokenizer and format outlive it; the rest is copied.
struct ChoiceSetup {
  const text::Tokenizer& tokenizer;
  const text::OutputFormat& format;
  const std::vector<TokenId>& eos_token_ids;
  absl::Span<const TokenId> prompt;
  int index = 0;         // among the request's choices
  int prompt_index = 0;  // the prompt that it answers
};

/// What an event adds to the answer. Tokens without text are in the next step that has text.
struct ChoiceStep {
  std::vector<text::AnswerDelta> deltas;
  std::vector<TokenId> tokens;                     // if the request asks for ids
  std::vector<execution::TokenLogprobs> logprobs;  // if it asks for them; NaN for a prompt's first token
  std::vector<text::AnswerPart> parts;             // [logprobs] the part that each token belongs to
  bool says_something() const { return !deltas.empty(); }
};

class Choice {
 public:
  Choice(const GenerationRequest& request, const ChoiceSetup& setup);

  /// Processes an event and returns what is new; after that done() says whether the answer is complete.
  /// REQUIRES: if the event is an error, it is DEADLINE_EXCEEDED.
  ChoiceStep Take(const engine::TokenEvent& event);
  bool done() const { return done_; }
  /// Whether the answer ended while the engine still generates, so that the sequence must be cancelled.
  bool ended_early() const { return ended_early_; }

  int index() const { return index_; }
  int prompt_index() const { return prompt_index_; }
  const text::ParsedAnswer& answer() const { return answer_; }
  /// Everything so far in the order in which it was generated; adjacent deltas of one kind are joined.
  const std::vector<text::AnswerDelta>& deltas() const { return deltas_; }
  const std::string& finish_reason() const { return finish_reason_; }
  /// The stop string or the request's stop token that ended the answer, or kTimedOut; monostate if the model
  /// or max_tokens ended it.
  const std::variant<std::monostate, TokenId, std::string>& stop_reason() const { return stop_reason_; }
  int prompt_tokens() const { return prompt_tokens_; }
  int64_t cached_prompt_tokens() const { return cached_prompt_tokens_; }
  int completion_tokens() const { return completion_tokens_; }
  int reasoning_tokens() const { return parser_.reasoning_tokens(); }
  /// The tokens of the whole answer, if the request asks for them.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<execution::TokenLogprobs>& logprobs() const { return logprobs_; }
  const std::vector<text::AnswerPart>& parts() const { return parts_; }  // [logprobs]
  /// One entry for each token of the prompt except the first, if the request asks for them.
  const std::vector<execution::TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }
  /// The mean log-probability of its tokens, by which best_of selects.
  double MeanLogprob() const;

 private:
  void TakeToken(TokenId token, std::vector<text::AnswerDelta>& out);
  void TakePrompt(std::vector<text::AnswerDelta>& out);
  void Add(std::vector<text::AnswerDelta> parsed, std::vector<text::AnswerDelta>& out);
  void AddContent(std::string text, std::vector<text::AnswerDelta>& out);
  void End(std::vector<text::AnswerDelta>& out, engine::FinishReason finish);
  ChoiceStep Step(std::vector<text::AnswerDelta> deltas);

  const text::Tokenizer& tokenizer_;
  const int index_;
  const int prompt_index_;
  const int prompt_tokens_;
  const int min_tokens_;
  const bool keep_tokens_;
  const bool include_reasoning_;
  const bool call_was_named_;
  const std::vector<TokenId> own_stop_ids_;  // stop tokens of the request
  const std::vector<TokenId> stop_ids_;      // all tokens that end the answer; they are not part of it
  std::vector<TokenId> echo_;                // the prompt, until it has been added to the answer
  const bool echo_first_was_added_;          // the prompt's first token does not come from the client's text
  std::string echo_text_;                    // the conversation's final message, until it has been added
  text::OutputParser parser_;
  StopMatcher stops_;
  text::ParsedAnswer answer_;
  std::vector<text::AnswerDelta> deltas_;
  std::vector<TokenId> tokens_;
  std::vector<execution::TokenLogprobs> logprobs_;
  std::vector<text::AnswerPart> parts_;
  std::vector<execution::TokenLogprobs> prompt_logprobs_;
  size_t sent_tokens_ = 0;  // how many of tokens_ and logprobs_ were in earlier steps
  size_t sent_logprobs_ = 0;
  int completion_tokens_ = 0;
  int64_t cached_prompt_tokens_ = 0;
  bool done_ = false;
  bool ended_early_ = false;
  std::string finish_reason_;
  std::variant<std::monostate, TokenId, std::string> stop_reason_;
};

}  // namespace numoe::serving
