// Qwen3-Coder's tool calls: <function=NAME><parameter=KEY>VALUE</parameter>...</function> between two marks.
//
// Arguments are translated into a JSON object as they come. A value is a string unless the declared schema
// names other types; then it is the JSON that the model wrote. Text that is not valid JSON is read as a
// Python literal, and becomes a string if it is neither. Strings stream; other values are passed on when they
// are complete. One line break at either end of a value belongs to the format.
//
// Values are not escaped, so a value ends at </parameter>. Because the model sometimes forgets that tag, a
// value also ends at <parameter=KEY> at the beginning of a line, where KEY is another parameter of the tool
// (anywhere in a line if the value begins on the line of its own tag), and at a </function> that is followed
// by nothing or by the next call. Several functions between the marks are several calls. Text that
// names no function is not a call. Source: the chat template published with Qwen3-Coder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/parsing/call_reader.h"

namespace numoe::text {

class QwenCoderCallReader final : public CallReader {
 public:
  QwenCoderCallReader(CallSink& sink, const std::vector<DeclaredTool>& tools) : sink_(sink), tools_(tools) {}

  void Begin() override;
  void BeginUnmarked() override;
  std::optional<std::string> TakeRest() override;
  void Head(std::string_view text) override { Body(text); }  // the format has no head
  void Body(std::string_view text) override;
  void End(bool closed) override;

 private:
  enum class At : uint8_t { kFunction, kName, kBetween, kKey, kValue, kAfter, kBroken };
  /// The part of `pending_` that belongs to the value: all that is certain, or all up to the tag that ends
  /// it.
  struct ValueEnd {
    size_t text = 0;  // the number of bytes of pending_ that are known to belong to the value
    size_t next = 0;  // the offset in pending_ at which reading continues after the value
    bool found = false;
  };

  /// Reads the next part of `pending_`. Returns false if that needs more text.
  bool Step();
  bool StepName();
  bool StepBetween();
  bool StepKey();
  bool StepValue();
  ValueEnd FindValueEnd() const;
  bool IsNextParameter(std::string_view tag, bool& undecided) const;
  bool StepAfter();
  void BeginValue(const std::string& key);
  void PushValue(std::string_view text);
  void EndValue();
  void Close();
  void Announce();

  CallSink& sink_;
  const std::vector<DeclaredTool>& tools_;
  std::string text_;     // the whole text of the call until it is announced
  std::string pending_;  // text that is not processed yet
  At at_ = At::kFunction;
  std::string name_;
  const DeclaredTool* tool_ = nullptr;
  bool announced_ = false;
  bool unmarked_call_ = false;     // the call has no marks around it
  std::vector<std::string> keys_;  // the call's keys so far
  bool dropped_ = false;           // the value's key occurred before
  bool begun_ = false;             // the line break at the value's beginning, if any, has been read
  bool in_line_ = false;           // the value begins without a line break
  ValueTypes types_ = 0;           // the declared types of the value
  std::string value_;              // a value that does not stream
};

}  // namespace numoe::text
