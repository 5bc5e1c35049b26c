// AnswerView: an answer as it appears on the terminal, piece by piece.
//
// In a pipe it is the content alone, and calls where there are any, a line each. For a person: thinking dim,
// the answer plain, calls in colour; without colours, thinking and calls are introduced by a word. Control
// characters that could drive the terminal are dropped there, whatever the model says. Pure state machine:
// the caller prints what it returns.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/net/client/answer_chunk.h"

namespace numoe::clients {

struct ViewStyle {
  bool person = false;  // else a pipe
  bool colour = false;
};

class AnswerView {
 public:
  explicit AnswerView(ViewStyle style) : style_(style) {}

  std::string Show(const net::AnswerChunk& chunk);
  /// The end, whole or broken off: colours are reset, the last line is ended.
  std::string Finish();

 private:
  enum class Part : uint8_t { kNothing, kThinking, kContent, kCall };

  void Enter(Part part, std::string& out);
  void Write(std::string_view text, std::string& out);

  const ViewStyle style_;
  Part part_ = Part::kNothing;
  int64_t call_ = -1;        // the one being shown
  bool line_begun_ = false;  // the last line has characters
  bool part_begun_ = false;  // something of the part has been written
};

/// Without C0 and C1 control characters other than LF and TAB. `text` is UTF-8.
std::string WithoutControls(std::string_view text);

}  // namespace numoe::clients
