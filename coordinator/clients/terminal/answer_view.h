// AnswerView: the text of an answer on the terminal, piece by piece.
//
// A pipe gets only the content and, if there are any, the calls, one per line. A person sees the thinking
// dim, the answer plain and calls in colour; without colours a word introduces thinking and calls. Control
// characters, with which a model could control the person's terminal, are dropped there. A pure state
// machine: the caller prints what it returns.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/net/client/answer_chunk.h"

namespace numoe::clients {

struct ViewStyle {
  bool person = false;  // true for a person at a terminal, false for a pipe
  bool colour = false;
};

class AnswerView {
 public:
  explicit AnswerView(ViewStyle style) : style_(style) {}

  std::string Show(const net::AnswerChunk& chunk);
  /// Ends the answer, whether it is complete or not: resets the colours and ends the last line.
  std::string Finish();

 private:
  enum class Part : uint8_t { kNothing, kThinking, kContent, kCall };

  void Enter(Part part, std::string& out);
  void Write(std::string_view text, std::string& out);

  const ViewStyle style_;
  Part part_ = Part::kNothing;
  int64_t call_ = -1;        // the one that is being shown
  bool line_begun_ = false;  // whether the last line has characters
  bool part_begun_ = false;  // whether some of the part has been written
};

/// Returns `text`, which is UTF-8, without C0 and C1 control characters other than LF and TAB.
std::string WithoutControls(std::string_view text);

}  // namespace numoe::clients
