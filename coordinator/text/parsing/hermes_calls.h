// Hermes' tool calls, as Qwen3 writes them: {"name": NAME, "arguments": JSON} between two marks.
//
// The object is read as it comes, so that arguments can stream: they go out as written once the name is
// known, and are kept where it stands behind them. "parameters" is another name of them. Arguments that are
// a JSON string of an object are taken out of it. A second object is a second call. What is no such object is
// no call. Source: the chat template published with Qwen3.
#pragma once

#include "coordinator/text/parsing/call_reader.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {

class HermesCallReader final : public CallReader {
 public:
  explicit HermesCallReader(CallSink& sink) : sink_(sink) {}

  void Begin() override;
  void Head(std::string_view text) override { Body(text); }  // the format has no head
  void Body(std::string_view text) override;
  void End(bool closed) override;

 private:
  enum class At : uint8_t { kObject, kKey, kInKey, kColon, kValue, kInValue, kBehind, kBroken };
  enum class Field : uint8_t { kOther, kName, kArguments };

  void Step(char c);
  void BeginValue(char c);
  void StepInValue(char c);
  void BeginAnother();
  void FlushStreamed();
  void EndValue();
  void Announce();

  CallSink& sink_;
  std::string text_;  // all of it, until the call is announced
  At at_ = At::kObject;
  std::string key_;
  Field field_ = Field::kOther;
  std::string value_;       // of a field that does not stream
  std::string streamed_;    // arguments to go out now
  bool streams_ = false;    // the value is the arguments, and goes out as it comes
  bool in_string_ = false;  // of a key or value
  bool escaped_ = false;
  int depth_ = 0;  // of the value
  std::string name_;
  std::string arguments_;  // complete, but not announced
  bool announced_ = false;
  Trimmer trimmer_;  // a value that never ends takes the white space behind it along
};

}  // namespace numoe::text
