// AnswerWriter: writes an answer in the form of one API, complete or as a stream of events.
//
// Each request has its own writer. For a stream, Events is called in order for every step of a choice that
// adds something or ends it, and End when all choices are done. For a complete answer only Whole is called.
// Failure ends a stream because of an error. The texts of a stream add up to the complete answer. Used only
// on the connection's executor.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/serving/api/choice.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/sse.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::serving {

/// What writers need in addition to the request. The tokenizer outlives them.
struct AnswerContext {
  const text::Tokenizer& tokenizer;
  std::string id;     // chatcmpl-...
  std::string model;  // the name by which the client has asked for it
  std::time_t created = 0;
  std::string fingerprint = {};               // system_fingerprint of the server
  std::vector<std::vector<TokenId>> prompts;  // as the engine computes them
};

/// Choices in the order of their indices; those of one prompt are adjacent.
using Choices = std::vector<std::unique_ptr<Choice>>;

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual std::string Events(const Choice& choice, const ChoiceStep& step) = 0;
  virtual std::string End(const Choices& choices) = 0;
  virtual std::string Failure(const net::ApiError& error) {
    return "data: " + error.ToJson() + "\n\n" + kSseDone;
  }
  virtual std::string Whole(const Choices& choices) = 0;
};

/// The tokens of all choices together; each prompt counts once.
struct TokenUsage {
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t completion = 0;
  int64_t reasoning = 0;
};
TokenUsage CountUsage(const Choices& choices);
TokenUsage CountUsage(const Choice& choice);

}  // namespace numoe::serving
