// The parts of a model's answer (reasoning, content, tool calls), as the pieces of a stream and as a whole.
//
// The first piece of a call has its complete id and name. The pieces of its arguments follow in order;
// joined, they are the JSON that the model wrote, byte for byte. The types are plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace numoe::text {

/// The part of the answer that a token belongs to.
enum class AnswerPart : uint8_t { kReasoning, kContent, kCalls };

struct AnswerDelta {
  enum class Kind : uint8_t { kReasoning, kContent, kCallBegin, kArguments };
  Kind kind = Kind::kContent;
  std::string text;  // empty for kCallBegin, never empty otherwise
  int call = 0;      // kCallBegin, kArguments: which call of this answer
  std::string id;    // kCallBegin
  std::string name;  // kCallBegin
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON, unless the model wrote something else or was cut off

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

/// A whole answer, the sum of its deltas. Add REQUIRES that a call's arguments come after its kCallBegin.
struct ParsedAnswer {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;

  void Add(const AnswerDelta& delta);
  friend bool operator==(const ParsedAnswer&, const ParsedAnswer&) = default;
};

/// Appends a delta to a list. If it continues the text of the last delta, its text is added to that one.
void Append(AnswerDelta delta, std::vector<AnswerDelta>& deltas);

}  // namespace numoe::text
