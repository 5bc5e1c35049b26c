// OpenAI's response: items of reasoning, message and function_call in the order in which the model said them.
//
// Source: OpenAI's API description 2.3.0. Streams are named events with sequence numbers, without [DONE]; the
// last one brings the whole response. Every state in which a response may be found later goes to `keep`. One
// thread.
#pragma once

#include <functional>
#include <string>

#include "coordinator/serving/api/answer_writer.h"
#include "coordinator/serving/api/responses_request.h"

namespace numoe::serving {

/// The object, as it is before anything is said.
nlohmann::ordered_json NewResponse(const AnswerContext& context, const ResponsesFields& fields,
                                   const char* status);

class ResponsesWriter final : public AnswerWriter {
 public:
  using Keep = std::function<void(const nlohmann::ordered_json& response)>;

  ResponsesWriter(AnswerContext context, const ResponsesFields& fields, Keep keep);
  std::string Events(const Choice& choice, const ChoiceStep& step) override;
  std::string End(const Choices& choices) override;
  std::string Failure(const net::ApiError& error) override;
  std::string Whole(const Choices& choices) override;

 private:
  std::string Event(const char* type, nlohmann::ordered_json fields);
  std::string Begin();
  std::string BeginItem(const text::AnswerDelta& delta);
  std::string Delta(const text::AnswerDelta& delta);
  std::string EndItem(const char* status);
  nlohmann::ordered_json Place() const;
  nlohmann::ordered_json Ended(const Choice& choice);

  const AnswerContext context_;
  nlohmann::ordered_json response_;  // its output: the items that are whole
  const Keep keep_;
  text::AnswerDelta item_;  // the one that is being said, with all its text
  bool open_ = false;
  bool begun_ = false;
  int sequence_ = 0;
};

}  // namespace numoe::serving
