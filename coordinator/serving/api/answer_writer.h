// AnswerWriter: one API's way of saying an answer, whole or as a stream of events.
//
// One for each request. Events is called for every step of a choice that says something or ends it, in order;
// End when all choices are done; Whole instead of both. Failure is the end of a stream that broke. The text
// of a stream adds up to the whole answer. Used on the connection's executor only.
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

/// What writers need besides the request. The tokenizer outlives them.
struct AnswerContext {
  const text::Tokenizer& tokenizer;
  std::string id;     // chatcmpl-...
  std::string model;  // its name in the API, as the client asked for it
  std::time_t created = 0;
  std::string fingerprint = {};               // of the server: system_fingerprint
  std::vector<std::vector<TokenId>> prompts;  // as computed
};

/// By index; those of one prompt follow each other.
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

/// Tokens of all choices together; a prompt counts once.
struct TokenUsage {
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t completion = 0;
  int64_t reasoning = 0;
};
TokenUsage CountUsage(const Choices& choices);
TokenUsage CountUsage(const Choice& choice);

}  // namespace numoe::serving
