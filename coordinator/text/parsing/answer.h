// What a model said, taken apart: reasoning, content and tool calls, as pieces of a stream and gathered.
//
// A call begins with its id and name, complete; its arguments follow as text, in order, and add up to the
// JSON that the model wrote, byte for byte. Values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace numoe::text {

/// What a token of an answer is of.
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

/// Where the deltas of one answer lead. REQUIRES of Add: a call's arguments come after its beginning.
struct ParsedAnswer {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;

  void Add(const AnswerDelta& delta);
  friend bool operator==(const ParsedAnswer&, const ParsedAnswer&) = default;
};

/// Adds a delta to a list, joined with the last one where both continue the same text.
void Append(AnswerDelta delta, std::vector<AnswerDelta>& deltas);

}  // namespace numoe::text
