// Random answers in every model's format, well-formed and malformed, with their tokens divided into random
// events.
//
// For the tests that compare the sum of a stream with the whole answer, in every API's dialect.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "coordinator/serving/api/answer_writer.h"
#include "coordinator/text/parsing/output_format.h"
#include "tests/support/byte_tokenizer.h"

namespace numoe {

struct SaidFormat {
  const char* name;
  std::vector<std::string> control;
  std::string call;  // a well-formed one
};

/// Kimi's, DeepSeek's and Qwen's.
const std::vector<SaidFormat>& SaidFormats();
/// A sequence of whole calls, reasoning, pieces of both, and single control tokens.
std::string RandomAnswer(const SaidFormat& format, std::mt19937& random);
/// A request with or without a tool, and with or without stop strings.
serving::GenerationRequest RandomRequest(std::mt19937& random);

using WriterFactory = std::function<std::unique_ptr<serving::AnswerWriter>(const serving::GenerationRequest&,
                                                                           serving::AnswerContext)>;

struct SaidTwice {
  std::string said;    // as text
  std::string stream;  // all events
  std::string whole;
  text::ParsedAnswer answer;
};
/// One random answer, streamed by one writer and sent as a whole by another.
SaidTwice SayTwice(const SaidFormat& format, const serving::GenerationRequest& request,
                   const WriterFactory& write, std::mt19937& random);

}  // namespace numoe
