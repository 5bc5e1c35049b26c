// Choice: one answer as it grows, between the engine and the wire.
//
// Turns token events into what is said (detokenised; reasoning, content and tool calls told apart). A prompt
// that is completed without a chat template is answered with raw text. Stop strings are looked for in the
// content alone, neither in the reasoning nor in calls, and not before min_tokens. finish_reason is "length"
// whenever max_tokens cut the answer, otherwise "tool_calls" if it calls tools that tool_choice did not name,
// otherwise "stop". At the request's deadline it is "length" too, with the stop reason "timeout". Used on the
// connection's executor only.
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

/// The stop reason of an answer that ended at its request's deadline.
inline constexpr char kTimedOut[] = "timeout";

/// What a choice needs besides its request. Tokenizer and format outlive it, the rest is copied.
struct ChoiceSetup {
  const text::Tokenizer& tokenizer;
  const text::OutputFormat& format;
  const std::vector<TokenId>& eos_token_ids;
  absl::Span<const TokenId> prompt;
  int index = 0;         // among the request's choices
  int prompt_index = 0;  // which of its prompts it answers
};

/// What is new. Tokens and log-probabilities wait for the next step that says something.
struct ChoiceStep {
  std::vector<text::AnswerDelta> deltas;
  std::vector<TokenId> tokens;                     // if the request wants ids
  std::vector<execution::TokenLogprobs> logprobs;  // if it wants them; NaN for a prompt's first token
  std::vector<text::AnswerPart> parts;             // [logprobs] what each token is of
  bool says_something() const { return !deltas.empty(); }
};

class Choice {
 public:
  Choice(const GenerationRequest& request, const ChoiceSetup& setup);

  /// Feeds an event; returns what is new. done() tells whether that was all. REQUIRES: an error is
  /// DEADLINE_EXCEEDED.
  ChoiceStep Take(const engine::TokenEvent& event);
  bool done() const { return done_; }
  /// It is over before the engine knew: the sequence must be cancelled.
  bool ended_early() const { return ended_early_; }

  int index() const { return index_; }
  int prompt_index() const { return prompt_index_; }
  const text::ParsedAnswer& answer() const { return answer_; }
  /// What was said so far in its order, each run of one kind in one piece.
  const std::vector<text::AnswerDelta>& said() const { return said_; }
  const std::string& finish_reason() const { return finish_reason_; }
  /// The stop string or the request's stop token that ended it, or kTimedOut; none: the model did, or
  /// max_tokens.
  const std::variant<std::monostate, TokenId, std::string>& stop_reason() const { return stop_reason_; }
  int prompt_tokens() const { return prompt_tokens_; }
  int64_t cached_prompt_tokens() const { return cached_prompt_tokens_; }
  int completion_tokens() const { return completion_tokens_; }
  int reasoning_tokens() const { return parser_.reasoning_tokens(); }
  /// All of the answer's, as far as asked for.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<execution::TokenLogprobs>& logprobs() const { return logprobs_; }
  const std::vector<text::AnswerPart>& parts() const { return parts_; }  // [logprobs]
  /// One for each prompt token but the first, if asked for.
  const std::vector<execution::TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }
  /// How likely its tokens were on average; what best_of goes by.
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
  const std::vector<TokenId> own_stop_ids_;  // the request's
  const std::vector<TokenId> stop_ids_;      // all that end it; not part of the answer
  std::vector<TokenId> echo_;                // the prompt, until it has been said
  const bool echo_first_was_added_;          // the prompt's first token is not of the client's text
  std::string echo_text_;                    // of the conversation's final message, likewise
  text::OutputParser parser_;
  StopMatcher stops_;
  text::ParsedAnswer answer_;
  std::vector<text::AnswerDelta> said_;
  std::vector<TokenId> tokens_;
  std::vector<execution::TokenLogprobs> logprobs_;
  std::vector<text::AnswerPart> parts_;
  std::vector<execution::TokenLogprobs> prompt_logprobs_;
  size_t told_tokens_ = 0;  // of tokens_ and logprobs_, in steps so far
  size_t told_logprobs_ = 0;
  int completion_tokens_ = 0;
  int64_t cached_prompt_tokens_ = 0;
  bool done_ = false;
  bool ended_early_ = false;
  std::string finish_reason_;
  std::variant<std::monostate, TokenId, std::string> stop_reason_;
};

}  // namespace numoe::serving
