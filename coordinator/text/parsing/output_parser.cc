#include "coordinator/text/parsing/output_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/parsing/unmarked_calls.h"

namespace numoe::text {
namespace {

// Returns the length of the longest end of `text` that is an incomplete mark; 0 if there is none.
size_t HalfMark(std::string_view text, const std::vector<std::pair<std::string, Mark>>& marks) {
  size_t keep = 0;
  for (const auto& [name, mark] : marks) {
    NUMOE_DCHECK(!name.empty());
    for (size_t length = std::min(name.size() - 1, text.size()); length > keep; --length) {
      if (text.substr(text.size() - length) == std::string_view(name).substr(0, length)) keep = length;
    }
  }
  return keep;
}

}  // namespace

OutputParser::OutputParser(const Tokenizer& tokenizer, const OutputFormat& format,
                           OutputParserOptions options)
    : format_(format), options_(std::move(options)), decoder_(tokenizer, options_.skip_special) {
  if (options_.calls && format_.tools != ToolSyntax::kNone)
    reader_ = MakeCallReader(format_.tools, *this, options_.tools);
  // After a mark of the prompt, white space belongs to the format; without one, the model has written it.
  trimmer_.Restart(/*keep_leading=*/!options_.prompt_mark);
  if (options_.prompt_mark == Mark::kThinkBegin && options_.separate_reasoning) state_ = State::kReasoning;
}

void OutputParser::Push(TokenId token, std::vector<AnswerDelta>& out) {
  if (complete_) return;
  out_ = &out;
  const std::optional<Mark> mark = format_.Find(token);
  if (mark && !IsText(*mark)) {
    FlushText();
    OnMark(*mark);
    const bool think = mark == Mark::kThinkBegin || mark == Mark::kThinkEnd;
    last_part_ = think ? AnswerPart::kReasoning : AnswerPart::kCalls;
  } else {
    const State before = state_;
    if (before == State::kReasoning) ++reasoning_tokens_;
    std::string text = decoder_.Push(token);
    const bool silent = text.empty();
    OnText(std::move(text));
    last_part_ = PartOfText(before, silent);
  }
  out_ = nullptr;
}

// `silent` is true if the token yields no text yet, because it ends inside a character.
AnswerPart OutputParser::PartOfText(State before, bool silent) const {
  if (before == State::kReasoning) return AnswerPart::kReasoning;
  if (before != State::kContent) return AnswerPart::kCalls;
  const bool trimmed =
      !silent && state_ == State::kContent && trimmer_.drops_leading() && !format_.marks.empty();
  return trimmed ? last_part_ : AnswerPart::kContent;
}

void OutputParser::Finish(std::vector<AnswerDelta>& out, Ending ending) {
  if (complete_) return;
  out_ = &out;
  FlushText();
  if (InCall()) {
    EndCall(/*closed=*/ending == Ending::kByModel && Headless());
  } else if (state_ == State::kContent) {
    Emit(AnswerDelta::Kind::kContent, trimmer_.Flush());
  }
  out_ = nullptr;
  complete_ = true;
}

// A mark that has no meaning in its place is quoted by the model, or a slip. It is text if the text around it
// suggests a quotation, and is ignored otherwise.
bool OutputParser::IsText(Mark mark) const {
  const bool think = mark == Mark::kThinkBegin || mark == Mark::kThinkEnd;
  if (think && !options_.separate_reasoning) return true;
  switch (state_) {
    case State::kReasoning:
      return mark == Mark::kThinkBegin && trimmer_.begun();
    case State::kContent:
      return think && trimmer_.begun() && !(mark == Mark::kThinkEnd && think_open_);
    case State::kBody:
      return think || mark == Mark::kArguments;
    case State::kSection:
    case State::kHead:
      return false;
  }
  return false;
}

void OutputParser::OnMark(Mark mark) {
  if (mark == Mark::kThinkBegin || mark == Mark::kThinkEnd) return OnThinkMark(mark);
  const bool begins = mark == Mark::kSectionBegin || mark == Mark::kCallBegin;
  if (reader_ == nullptr) {
    if (begins && state_ == State::kReasoning) BeginSection();
    return;
  }
  if (mark == Mark::kArguments) {
    if (state_ == State::kHead) state_ = State::kBody;
    return;
  }
  if (InCall()) EndCall(/*closed=*/true);
  if (complete_) return;
  if (begins && (state_ == State::kReasoning || state_ == State::kContent)) BeginSection();
  if (mark == Mark::kSectionBegin) {
    in_section_ = true;
    state_ = State::kSection;
  } else if (mark == Mark::kCallBegin) {
    reader_->Begin();
    state_ = Headless() ? State::kBody : State::kHead;
  } else if (mark == Mark::kSectionEnd && in_section_) {
    in_section_ = false;
    Enter(State::kContent);
  }
}

void OutputParser::OnThinkMark(Mark mark) {
  if (mark == Mark::kThinkBegin && state_ == State::kContent) Enter(State::kReasoning);
  if (mark == Mark::kThinkEnd && state_ == State::kReasoning) Enter(State::kContent);
  if (mark == Mark::kThinkEnd) think_open_ = false;
}

// Calls begin. This ends the text before them; white space at its end is dropped.
void OutputParser::BeginSection() {
  NUMOE_DCHECK(state_ == State::kReasoning || state_ == State::kContent);
  think_open_ = think_open_ || state_ == State::kReasoning;
  Enter(State::kContent);
}

void OutputParser::Enter(State state) {
  NUMOE_DCHECK(state == State::kReasoning || state == State::kContent);
  state_ = state;
  trimmer_.Restart(/*keep_leading=*/false);
}

void OutputParser::EndCall(bool closed) {
  NUMOE_CHECK(InCall() && reader_ != nullptr);
  reader_->End(closed);
  unmarked_call_ = false;
  if (in_section_) {
    state_ = State::kSection;
  } else {
    Enter(State::kContent);
  }
  if (!options_.parallel_calls && calls_ > 0) complete_ = true;
}

void OutputParser::OnText(std::string text) {
  if (text.empty()) return;
  if (format_.tools == ToolSyntax::kQwenCoder && reader_ != nullptr)
    return OnTextWithUnmarkedCalls(std::move(text));
  if (format_.spelled.empty() || InCall()) return Route(text);
  pending_text_ += text;
  for (;;) {
    size_t at = std::string::npos;
    const std::pair<std::string, Mark>* found = nullptr;
    for (const auto& spelled : format_.spelled) {
      if (const size_t place = pending_text_.find(spelled.first); place < at) {
        at = place;
        found = &spelled;
      }
    }
    if (found == nullptr) break;
    Route(std::string_view(pending_text_).substr(0, at));
    pending_text_.erase(0, at + found->first.size());
    OnMark(found->second);
  }
  const size_t keep = HalfMark(pending_text_, format_.spelled);
  Route(std::string_view(pending_text_).substr(0, pending_text_.size() - keep));
  pending_text_.erase(0, pending_text_.size() - keep);
}

void OutputParser::OnTextWithUnmarkedCalls(std::string text) {
  if (state_ != State::kContent) {
    Route(text);  // if this ends an unmarked call, pending_text_ has the text that follows the call
  } else {
    pending_text_ += text;
  }
  while (state_ == State::kContent && !pending_text_.empty()) {
    const UnmarkedCall next = FindUnmarkedCall(pending_text_, options_.tools);
    NUMOE_DCHECK_LE(next.text_bytes, pending_text_.size());
    Route(std::string_view(pending_text_).substr(0, next.text_bytes));
    pending_text_.erase(0, next.text_bytes);
    if (!next.found) return;
    BeginSection();
    reader_->BeginUnmarked();
    state_ = State::kBody;
    unmarked_call_ = true;
    Route(std::exchange(pending_text_, {}));
  }
}

void OutputParser::OnBody(std::string_view text) {
  reader_->Body(text);
  if (!unmarked_call_) return;
  std::optional<std::string> rest = reader_->TakeRest();
  if (!rest) return;
  EndCall(/*closed=*/true);
  if (!complete_) pending_text_ = *std::move(rest);
}

// An incomplete character, or an incomplete mark in ordinary tokens, turns out to be text.
void OutputParser::FlushText() {
  OnText(decoder_.Flush());
  Route(std::exchange(pending_text_, {}));
}

void OutputParser::Route(std::string_view text) {
  if (text.empty()) return;
  switch (state_) {
    case State::kReasoning:
      return Emit(AnswerDelta::Kind::kReasoning, trimmer_.Push(text, /*hold_end=*/true));
    case State::kContent:
      if (format_.marks.empty()) return Emit(AnswerDelta::Kind::kContent, std::string(text));
      // White space is held back only where a call may follow it.
      return Emit(AnswerDelta::Kind::kContent, trimmer_.Push(text, /*hold_end=*/reader_ != nullptr));
    case State::kSection:
      return;
    case State::kHead:
      NUMOE_DCHECK(reader_ != nullptr);
      return reader_->Head(text);
    case State::kBody:
      return OnBody(text);
  }
}

void OutputParser::Emit(AnswerDelta::Kind kind, std::string text) {
  NUMOE_CHECK(out_ != nullptr) << "deltas can be emitted only while Push or Finish runs";
  if (text.empty()) return;
  const int call = kind == AnswerDelta::Kind::kArguments ? calls_ - 1 : 0;
  Append({.kind = kind, .text = std::move(text), .call = call}, *out_);
}

void OutputParser::BeginCall(const std::string& name) {
  NUMOE_CHECK(out_ != nullptr && !name.empty());
  dropped_ = !options_.parallel_calls && calls_ > 0;  // a second call between the same marks
  if (dropped_) return;
  const int call = calls_++;
  Append({.kind = AnswerDelta::Kind::kCallBegin,
          .call = call,
          .id = fmt::format("functions.{}:{}", name, options_.first_call_number + call),
          .name = name},
         *out_);
}

void OutputParser::Arguments(std::string_view text) {
  NUMOE_CHECK_GT(calls_, 0);
  if (!dropped_) Emit(AnswerDelta::Kind::kArguments, std::string(text));
}

void OutputParser::NoCall(std::string_view text) {
  if (!Trimmed(text).empty()) Emit(AnswerDelta::Kind::kContent, std::string(text));
}

}  // namespace numoe::text
