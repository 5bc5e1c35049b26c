// OneAnswer: the only choice of a request with OpenAI's writer; the test gives it the token events.
//
// It does what the engine and a GenerationTask do in a server. `events` collects the events of the stream,
// without usage and [DONE].
#pragma once

#include <string>
#include <vector>

#include "coordinator/serving/api/choice.h"
#include "coordinator/serving/api/openai_writer.h"

namespace numoe {

/// An empty conversation, for tests that need only the answer.
inline serving::GenerationRequest ChatOf(std::vector<std::string> stop = {}) {
  serving::GenerationRequest request;
  request.conversation.emplace();
  request.conversation->messages = nlohmann::ordered_json::array();
  request.stop = std::move(stop);
  return request;
}

class OneAnswer {
 public:
  OneAnswer(const serving::GenerationRequest& request, const serving::ChoiceSetup& setup)
      : choice_(new serving::Choice(request, setup)) {
    choices_.emplace_back(choice_);
    const serving::AnswerContext context{.tokenizer = setup.tokenizer,
                                         .id = "id-1",
                                         .model = "m",
                                         .created = 0,
                                         .fingerprint = "fp_1",
                                         .prompts = {{setup.prompt.begin(), setup.prompt.end()}}};
    if (request.conversation) {
      writer_ = std::make_unique<serving::ChatWriter>(request, context);
    } else {
      writer_ = std::make_unique<serving::TextWriter>(request, context);
    }
  }

  std::vector<text::AnswerDelta> Take(const engine::TokenEvent& event) {
    const serving::ChoiceStep step = choice_->Take(event);
    last_events = writer_->Events(*choice_, step);
    events += last_events;
    return step.deltas;
  }
  /// The same without writing events, which takes most of the time.
  std::vector<text::AnswerDelta> TakeSilently(const engine::TokenEvent& event) {
    return choice_->Take(event).deltas;
  }
  const serving::Choice& choice() const { return *choice_; }
  bool done() const { return choice_->done(); }
  std::string Whole() { return writer_->Whole(choices_); }
  std::string End() { return writer_->End(choices_); }

  std::string events;
  std::string last_events;  // of the last Take

 private:
  serving::Choice* const choice_;
  serving::Choices choices_;
  std::unique_ptr<serving::AnswerWriter> writer_;
};

}  // namespace numoe
