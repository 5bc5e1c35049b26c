// Hermes' tool calls, as Qwen3 writes them: {"name": NAME, "arguments": JSON} between two marks.
//
// The object is read character by character, so that arguments can stream: if the name is already known, they
// are passed on as written; if the name follows the arguments, they are kept until then. The key "parameters"
// means the same as "arguments". Arguments that are a JSON string which contains an object are replaced by
// that object. A second object is a second call. Text that is not such an object is not a call. Source: the
// chat template published with Qwen3.
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
  enum class At : uint8_t { kObject, kKey, kInKey, kColon, kValue, kInValue, kAfter, kBroken };
  enum class Field : uint8_t { kOther, kName, kArguments };

  void Step(char c);
  void BeginValue(char c);
  void StepInValue(char c);
  void BeginAnother();
  void FlushStreamed();
  void EndValue();
  void Announce();

  CallSink& sink_;
  std::string text_;  // the whole text of the call until it is announced
  At at_ = At::kObject;
  std::string key_;
  Field field_ = Field::kOther;
  std::string value_;       // the value of a field that does not stream
  std::string streamed_;    // arguments that are passed on at the end of Body
  bool streams_ = false;    // the value is the arguments and is passed on as it comes
  bool in_string_ = false;  // inside a string of the value
  bool escaped_ = false;    // the previous character of a key or string was an escaping backslash
  int depth_ = 0;           // open braces and brackets of the value
  std::string name_;
  std::string arguments_;  // complete, but not announced yet
  bool announced_ = false;
  Trimmer trimmer_;  // a value that is cut off would otherwise end with white space
};

}  // namespace numoe::text
