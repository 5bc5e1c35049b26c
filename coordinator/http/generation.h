// Generation: one request's life between the engine and the wire.
//
// Turns token events into an answer (detokenised; reasoning, content and tool calls told apart) and that into
// OpenAI's objects: one answer, or a stream of chunks. /v1/completions is raw text. Stop strings are looked
// for in the content alone, neither in the reasoning nor in calls. finish_reason is "length" whenever
// max_tokens cut the answer, otherwise "tool_calls" if it calls tools, otherwise "stop". Used on the
// connection's executor only.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/http/completion_request.h"
#include "coordinator/http/stop_matcher.h"
#include "coordinator/parsing/output_parser.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace numoe {

/// What a generation needs besides its request. Tokenizer and format outlive it, the rest is copied.
struct GenerationSetup {
  const Tokenizer& tokenizer;
  const OutputFormat& format;
  const std::vector<TokenId>& eos_token_ids;
  absl::Span<const TokenId> prompt;
  std::string id;     // chatcmpl-...
  std::string model;  // its name in the API
};

class Generation {
 public:
  Generation(const CompletionRequest& request, const GenerationSetup& setup);

  /// Feeds an event; returns what is new. done() tells whether that was all.
  std::vector<AnswerDelta> Take(const TokenEvent& event);
  bool done() const { return done_; }
  /// It is over before the engine knew: the sequence must be cancelled.
  bool ended_early() const { return ended_early_; }

  /// SSE events with these deltas: the first of all also carries the role, the last the finish reason when
  /// done. Deltas of one Take in one call.
  std::string Events(const std::vector<AnswerDelta>& deltas);
  bool wants_usage() const { return include_usage_; }
  std::string UsageEvent() const;
  /// The whole answer.
  std::string Answer() const;
  int completion_tokens() const { return completion_tokens_; }

 private:
  void TakeToken(TokenId token, std::vector<AnswerDelta>& out);
  void Add(std::vector<AnswerDelta> parsed, std::vector<AnswerDelta>& out);
  void AddContent(std::string text, std::vector<AnswerDelta>& out);
  std::string Event(const AnswerDelta* delta, bool last);
  nlohmann::ordered_json Base(const char* chat_object, const char* text_object) const;
  nlohmann::ordered_json Message() const;
  nlohmann::ordered_json Usage() const;
  nlohmann::ordered_json Finish() const;

  const bool chat_;
  const bool include_usage_;
  const std::string id_;
  const std::string model_;
  const int prompt_tokens_;
  const std::vector<TokenId> stop_ids_;  // not part of the answer
  const std::time_t created_ = std::time(nullptr);
  OutputParser parser_;
  StopMatcher stops_;
  ParsedAnswer answer_;
  int completion_tokens_ = 0;
  int64_t cached_prompt_tokens_ = 0;
  bool first_event_ = true;
  bool done_ = false;
  bool ended_early_ = false;
  std::string finish_reason_;
};

}  // namespace numoe
