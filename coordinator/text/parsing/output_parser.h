// OutputParser: from the tokens of an answer to reasoning, content and tool calls.
//
// One state machine, driven by token ids (output_format.h), for whole answers and streams alike: a whole
// answer is the sum of its deltas, so the two cannot differ. Promises:
// - No mark reaches reasoning or content, whole or in part. White space beside a mark belongs to the format.
// - A call's beginning carries its whole name; its arguments stream as they come, verbatim; none are "{}".
//   A call cut off before its arguments began is left out; later, it ends where the text ended.
// - Where calls are not wanted (no tools declared, tool_choice none) their text is content, without the
// marks.
// - Where the reasoning is not to be separate, it is content with its marks, as the model said it.
// - A call that lacks its first mark (bare_calls.h) is a call; a Qwen or Hermes model that ends its turn ends
// its call.
// - A call section ends the reasoning. Inside arguments every mark but those that end the call is text.
// - Memory is what is held back: white space, half marks, and calls whose name is not known yet.
// One thread; `tokenizer` and `format` must outlive it.
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
  bool calls = false;               // wanted
  bool parallel_calls = true;       // false: the answer is over after one
  std::vector<DeclaredTool> tools;  // to find the name of a call that has none
  int first_call_number = 0;        // ids are functions.NAME:NUMBER, numbered over the conversation
  std::optional<Mark> prompt_mark;  // what the prompt ends behind (PromptMark)
  bool skip_special = true;         // control tokens are not text
  bool separate_reasoning = true;   // false: the reasoning and its marks are content
};

class OutputParser final : private CallSink {
 public:
  OutputParser(const Tokenizer& tokenizer, const OutputFormat& format, OutputParserOptions options);
  OutputParser(const OutputParser&) = delete;  // the reader refers to it

  /// Takes a token; what it makes certain is appended to `out`.
  void Push(TokenId token, std::vector<AnswerDelta>& out);
  /// The answer is over: because the model ended it, or because it was cut off.
  enum class Ending : uint8_t { kByModel, kCutOff };
  void Finish(std::vector<AnswerDelta>& out, Ending ending = Ending::kCutOff);
  /// Nothing that follows counts: the one call that was allowed is whole.
  bool complete() const { return complete_; }
  int calls() const { return calls_; }
  int reasoning_tokens() const { return reasoning_tokens_; }
  /// What the last token was of. Marks are of the reasoning or the calls; white space beside a mark is of
  /// what was before it, so that the content's tokens say the content.
  AnswerPart last_part() const { return last_part_; }

 private:
  enum class State : uint8_t { kReasoning, kContent, kSection, kHead, kBody };

  bool InCall() const { return state_ == State::kHead || state_ == State::kBody; }
  /// A call is markup or an object between marks, which shows by itself what is missing at its end.
  bool Headless() const {
    return format_.tools == ToolSyntax::kHermes || format_.tools == ToolSyntax::kQwenCoder;
  }
  bool IsText(Mark mark) const;
  void OnMark(Mark mark);
  void OnThinkMark(Mark mark);
  void OnText(std::string text);
  void OnTextWithBareCalls(std::string text);
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
  std::unique_ptr<CallReader> reader_;  // null: calls are not wanted, or the format has none
  StreamDecoder decoder_;
  std::string spelled_;  // may become a mark that is spelled out, or the head of a bare call
  Trimmer trimmer_;      // of the reasoning or the content
  State state_ = State::kContent;
  bool in_section_ = false;
  bool think_open_ = false;  // a call ended the reasoning: its own mark may still come
  bool bare_ = false;        // the call has no mark around it
  bool complete_ = false;
  bool dropped_ = false;  // the call is one more than was allowed
  int calls_ = 0;
  int reasoning_tokens_ = 0;
  AnswerPart last_part_ = AnswerPart::kReasoning;
  std::vector<AnswerDelta>* out_ = nullptr;  // while Push or Finish runs
};

}  // namespace numoe::text
