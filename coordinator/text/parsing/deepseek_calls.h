// DeepSeek's tool calls in both forms, the old one and that of V3.1; the text of each call shows which it is.
//
// In V3.1 the head is the name and the body is the arguments. In V3 and R1 the head is "function", and the
// body is the name, a line break and the arguments in a ```json fence. Arguments begin at the first brace.
#pragma once

#include "coordinator/text/parsing/call_reader.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {

class DeepSeekCallReader final : public CallReader {
 public:
  explicit DeepSeekCallReader(CallSink& sink) : sink_(sink) {}

  void Begin() override;
  void Head(std::string_view text) override { head_ += text; }
  void Body(std::string_view text) override;
  void End(bool closed) override;

 private:
  std::string Name() const;

  CallSink& sink_;
  std::string head_;
  std::string prefix_;  // the body's text before the first brace
  bool announced_ = false;
  Trimmer trimmer_{" \t\r\n`"};  // also removes the backticks of the fence's end, which are not JSON
};

}  // namespace numoe::text
