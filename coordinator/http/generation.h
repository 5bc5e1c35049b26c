// Generation: one request's life between the engine and the wire.
//
// Turns token events into text (detokenised, stop strings cut) and text into OpenAI's objects: one answer, or
// a stream of chunks. Used on the connection's executor only.
#pragma once

#include <ctime>
#include <string>

#include "coordinator/http/completion_request.h"
#include "coordinator/http/stop_matcher.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace numoe {

class Generation {
 public:
  Generation(const CompletionRequest& request, const Tokenizer& tokenizer, std::string id, std::string model,
             int prompt_tokens, const std::vector<TokenId>& eos);

  /// Feeds an event; returns the new text. done() and finish_reason() tell the rest.
  std::string Take(const TokenEvent& event);
  bool done() const { return done_; }
  /// The stop string ended it before the engine knew: the sequence must be cancelled.
  bool stopped_by_text() const { return stops_.stopped(); }

  /// One SSE event with `text` (the first also carries the role), with the finish reason when done.
  std::string Chunk(const std::string& text);
  bool wants_usage() const { return include_usage_; }
  std::string UsageChunk() const;
  /// The whole answer.
  std::string Answer() const;
  int completion_tokens() const { return completion_tokens_; }

 private:
  nlohmann::ordered_json Base(const char* chat_object, const char* text_object) const;
  nlohmann::ordered_json Usage() const;
  nlohmann::ordered_json Finish() const;

  const bool chat_;
  const bool include_usage_;
  const std::string id_;
  const std::string model_;
  const int prompt_tokens_;
  const std::vector<TokenId> stop_ids_;  // not part of the text
  const std::time_t created_ = std::time(nullptr);
  StreamDecoder decoder_;
  StopMatcher stops_;
  std::string text_;
  int completion_tokens_ = 0;
  bool first_chunk_ = true;
  bool done_ = false;
  std::string finish_reason_;
};

}  // namespace numoe
