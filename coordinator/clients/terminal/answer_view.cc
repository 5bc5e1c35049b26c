#include "coordinator/clients/terminal/answer_view.h"

#include "common/base/check.h"

namespace numoe::clients {
namespace {

constexpr char kDim[] = "\x1b[2m", kCyan[] = "\x1b[36m", kPlain[] = "\x1b[0m";

}  // namespace

std::string WithoutControls(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c0 = (c < ' ' && c != '\n' && c != '\t') || c == 0x7f;
    // U+0080 to U+009F, two bytes in UTF-8
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1) ++i;
    if (!c0 && !c1) clean += text[i];
  }
  return clean;
}

void AnswerView::Enter(Part part, std::string& out) {
  if (part == part_) return;
  if (style_.colour && (part_ == Part::kThinking || part_ == Part::kCall)) out += kPlain;
  if (part_ != Part::kNothing) {
    if (line_begun_) out += '\n';
    if (style_.person) out += '\n';
  }
  line_begun_ = part_begun_ = false;
  part_ = part;
  if (part == Part::kThinking) {
    out += style_.colour ? kDim : "(thinking) ";
    line_begun_ = !style_.colour;  // the word "(thinking)" has begun a line
  }
  if (part == Part::kCall && style_.colour) out += kCyan;
}

void AnswerView::Write(std::string_view text, std::string& out) {
  const std::string clean = style_.person ? WithoutControls(text) : std::string(text);
  std::string_view rest = clean;
  // Models write empty lines between their parts; this view writes its own.
  while (style_.person && !part_begun_ && !rest.empty() && rest[0] == '\n') rest.remove_prefix(1);
  if (rest.empty()) return;
  part_begun_ = true;
  line_begun_ = rest.back() != '\n';
  NUMOE_DCHECK(part_ != Part::kNothing) << "text belongs to a part";
  out += rest;
}

std::string AnswerView::Show(const net::AnswerChunk& chunk) {
  std::string out;
  if (!chunk.reasoning.empty() && style_.person) {
    Enter(Part::kThinking, out);
    Write(chunk.reasoning, out);
  }
  if (!chunk.content.empty()) {
    Enter(Part::kContent, out);
    Write(chunk.content, out);
  }
  for (const net::AnswerChunk::CallPart& part : chunk.calls) {
    NUMOE_DCHECK_GE(part.index, 0);
    Enter(Part::kCall, out);
    if (part.index != call_ || !part.name.empty()) {
      if (line_begun_) out += '\n';
      if (style_.person) out += "calls ";
      Write(part.name + " ", out);
      call_ = part.index;
    }
    Write(part.arguments, out);
  }
  return out;
}

std::string AnswerView::Finish() {
  std::string out;
  if (style_.colour && (part_ == Part::kThinking || part_ == Part::kCall)) out += kPlain;
  if (line_begun_) out += '\n';
  part_ = Part::kNothing;
  line_begun_ = part_begun_ = false;
  return out;
}

}  // namespace numoe::clients
