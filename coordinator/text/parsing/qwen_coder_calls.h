// Qwen3-Coder's tool calls: <function=NAME><parameter=KEY>VALUE</parameter>...</function> between two marks.
//
// Arguments become a JSON object as they come. A value is a string unless the declared schema names other
// types: then it is the JSON that the model wrote, if it is one. Strings stream; other values go out whole.
// Text that is none is read as Python's literal, and is a string after all where it is neither. One line
// break at either end of a value belongs to the format. Values are not escaped, so a value ends at
// </parameter>, and, for the model forgets that one, at <parameter=KEY> of another parameter that the tool
// has on a line of its own (anywhere behind a value that begins on the tag's line), or at a </function> with
// nothing or the next call behind it. Several functions between the marks are several calls. What names no
// function is no call. Source: the chat template published with Qwen3-Coder.
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
  void BeginBare() override;
  std::optional<std::string> TakeRest() override;
  void Head(std::string_view text) override { Body(text); }  // the format has no head
  void Body(std::string_view text) override;
  void End(bool closed) override;

 private:
  enum class At : uint8_t { kFunction, kName, kBetween, kKey, kValue, kBehind, kBroken };
  /// How far `pending_` belongs to the value, for certain or until a tag that ends it.
  struct ValueEnd {
    size_t text = 0;  // of pending_: the value's, as far as known
    size_t next = 0;  // of pending_: where reading goes on behind the value
    bool found = false;
  };

  /// false: needs more text.
  bool Step();
  bool StepName();
  bool StepBetween();
  bool StepKey();
  bool StepValue();
  ValueEnd FindValueEnd() const;
  bool IsNextParameter(std::string_view tag, bool& undecided) const;
  bool StepBehind();
  void BeginValue(const std::string& key);
  void PushValue(std::string_view text);
  void EndValue();
  void Close();
  void Announce();

  CallSink& sink_;
  const std::vector<DeclaredTool>& tools_;
  std::string text_;     // all of it, until the call is announced
  std::string pending_;  // not understood yet
  At at_ = At::kFunction;
  std::string name_;
  const DeclaredTool* tool_ = nullptr;
  bool announced_ = false;
  bool bare_ = false;
  std::vector<std::string> keys_;  // seen
  bool dropped_ = false;           // the value's key was there before
  bool begun_ = false;             // the line break at the value's beginning is behind
  bool in_line_ = false;           // there was none
  ValueTypes types_ = 0;           // of the value
  std::string value_;              // one that does not stream
};

}  // namespace numoe::text
