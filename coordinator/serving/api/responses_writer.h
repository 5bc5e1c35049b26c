// ResponsesWriter: OpenAI's response, with items of reasoning, message and function_call in the model's
// order.
//
// Source: OpenAI's API description 2.3.0. Streams are named events with sequence numbers, without [DONE]; the
// last event contains the whole response. `keep` gets every state in which a response may be read later. One
// thread.
#pragma once

#include <functional>
#include <string>

#include "coordinator/serving/api/answer_writer.h"
#include "coordinator/serving/api/responses_request.h"

namespace numoe::serving {

/// The object before anything has been generated.
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
  nlohmann::ordered_json Position() const;  // item_id, output_index and content_index of an event
  nlohmann::ordered_json Ended(const Choice& choice);

  const AnswerContext context_;
  nlohmann::ordered_json response_;  // its output contains the complete items
  const Keep keep_;
  text::AnswerDelta item_;  // the unfinished item, with all of its text
  bool open_ = false;
  bool begun_ = false;
  int sequence_ = 0;
};

}  // namespace numoe::serving
