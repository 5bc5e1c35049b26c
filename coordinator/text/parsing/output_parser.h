// OutputParser: divides the tokens of an answer into reasoning, content and tool calls.
//
// One state machine, driven by token ids (output_format.h), parses whole answers and streams alike: a whole
// answer is the sum of its deltas, so the two cannot differ. It promises:
// - Neither a mark nor a part of one gets into reasoning or content. White space beside a mark belongs to the
//   format.
// - The first delta of a call has its whole name; its arguments stream as they come, verbatim; a call without
//   arguments has "{}". A call that is cut off before its arguments began is left out; one that is cut off
//   later ends where the text ended.
// - If calls are not wanted (no tools declared, or tool_choice none), their text is content, without the
//   marks.
// - If the reasoning should not be separate, it is content with its marks, as the model wrote it.
// - A call that lacks its first mark (unmarked_calls.h) is still a call. If a Qwen or Hermes model ends its
//   turn inside a call, that also ends the call.
// - A section of calls ends the reasoning. Inside arguments every mark is text, except those that end the
//   call.
// - The parser keeps only what is held back: white space, incomplete marks, and calls without a known name.
// Belongs to one thread; `tokenizer` and `format` must outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/parsing/answer.h"
#include "coordinator/text/parsing/call_reader.h"
#include "coordinator/text/parsing/declared_tools.h"
#include "coordinator/text/parsing/output_format.h"
#include "coordinator/text/parsing/trimmer.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::text {

struct OutputParserOptions {
  bool calls = false;               // whether tool calls are wanted
  bool parallel_calls = true;       // if false, the answer is over after one call
  std::vector<DeclaredTool> tools;  // for unmarked calls, calls without a name, and the types of arguments
  int first_call_number = 0;        // ids are functions.NAME:NUMBER, numbered over the conversation
  std::optional<Mark> prompt_mark;  // the mark that decides how the answer begins (PromptMark)
  bool skip_special = true;         // control tokens are not text
  bool separate_reasoning = true;   // if false, the reasoning and its marks are content
};

class OutputParser final : private CallSink {
 public:
  OutputParser(const Tokenizer& tokenizer, const OutputFormat& format, OutputParserOptions options);
  OutputParser(const OutputParser&) = delete;  // the reader refers to this object

  /// Takes a token and appends to `out` the deltas that are certain now.
  void Push(TokenId token, std::vector<AnswerDelta>& out);
  /// Why an answer is over: the model ended it, or it was cut off.
  enum class Ending : uint8_t { kByModel, kCutOff };
  /// The answer is over. Appends the last deltas to `out`.
  void Finish(std::vector<AnswerDelta>& out, Ending ending = Ending::kCutOff);
  /// Whether later tokens are ignored, because Finish was called or the only allowed call is complete.
  bool complete() const { return complete_; }
  int calls() const { return calls_; }
  int reasoning_tokens() const { return reasoning_tokens_; }
  /// The part of the answer that the last token belongs to. Marks belong to the reasoning or to the calls.
  /// White space after a mark belongs to the part before it, so that the content's tokens are exactly the
  /// content.
  AnswerPart last_part() const { return last_part_; }

 private:
  enum class State : uint8_t { kReasoning, kContent, kSection, kHead, kBody };

  bool InCall() const { return state_ == State::kHead || state_ == State::kBody; }
  /// Whether a call has no head, only markup or an object between its marks, whose missing end can be added.
  bool Headless() const {
    return format_.tools == ToolSyntax::kHermes || format_.tools == ToolSyntax::kQwenCoder;
  }
  bool IsText(Mark mark) const;
  void OnMark(Mark mark);
  void OnThinkMark(Mark mark);
  void OnText(std::string text);
  void OnTextWithUnmarkedCalls(std::string text);
  void OnBody(std::string_view text);
  AnswerPart PartOfText(State before, bool silent) const;
  void Route(std::string_view text);
  void FlushText();
  void Enter(State state);
  void BeginSection();
  void EndCall(bool closed);
  void Emit(AnswerDelta::Kind kind, std::string text);
  void BeginCall(const std::string& name) override;
  void Arguments(std::string_view text) override;
  void NoCall(std::string_view text) override;

  const OutputFormat& format_;
  const OutputParserOptions options_;
  std::unique_ptr<CallReader> reader_;  // null if calls are not wanted or the format has none
  StreamDecoder decoder_;
  std::string
      pending_text_;  // text that may become a mark in ordinary tokens, or the head of an unmarked call
  Trimmer trimmer_;   // trims the reasoning or the content
  State state_ = State::kContent;
  bool in_section_ = false;
  bool think_open_ = false;     // a call ended the reasoning, whose end mark may still come
  bool unmarked_call_ = false;  // the call has no marks around it
  bool complete_ = false;
  bool dropped_ = false;  // the call is one more than allowed
  int calls_ = 0;
  int reasoning_tokens_ = 0;
  AnswerPart last_part_ = AnswerPart::kReasoning;
  std::vector<AnswerDelta>* out_ = nullptr;  // not null while Push or Finish runs
};

}  // namespace numoe::text
