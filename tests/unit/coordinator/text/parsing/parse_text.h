// Parses a text as an answer, token by token. In the text, control tokens are written by name; each other
// byte is a token.
//
// Also checks that no delta is empty and that every call begins with a name.
#pragma once

#include <string>

#include "coordinator/text/parsing/output_parser.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"

namespace numoe::text {

inline ParsedAnswer ParseText(const Tokenizer& tokenizer, const OutputFormat& format, const std::string& text,
                              OutputParserOptions options = {.calls = true},
                              OutputParser::Ending ending = OutputParser::Ending::kCutOff) {
  OutputParser parser(tokenizer, format, std::move(options));
  ParsedAnswer answer;
  std::vector<AnswerDelta> deltas;
  const auto take = [&] {
    for (const AnswerDelta& delta : deltas) {
      EXPECT_EQ(delta.text.empty(), delta.kind == AnswerDelta::Kind::kCallBegin);
      EXPECT_EQ(delta.name.empty(), delta.kind != AnswerDelta::Kind::kCallBegin);
      answer.Add(delta);
    }
    deltas.clear();
  };
  for (const TokenId token : tokenizer.Encode(text, Specials::kParse)) {
    parser.Push(token, deltas);
    take();
  }
  parser.Finish(deltas, ending);
  take();
  EXPECT_EQ(parser.calls(), static_cast<int>(answer.calls.size()));
  return answer;
}

/// Returns the calls as "name(arguments) name(arguments)".
inline std::string CallsOf(const ParsedAnswer& answer) {
  std::string out;
  for (const ToolCall& call : answer.calls)
    out += (out.empty() ? "" : " ") + call.name + "(" + call.arguments + ")";
  return out;
}

}  // namespace numoe::text
