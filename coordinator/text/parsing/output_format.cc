#include "coordinator/text/parsing/output_format.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {
namespace {

struct NamedMark {
  const char* name;
  Mark mark;
};

constexpr NamedMark kThink[] = {{"<think>", Mark::kThinkBegin}, {"</think>", Mark::kThinkEnd}};
constexpr NamedMark kKimi[] = {{"<|tool_calls_section_begin|>", Mark::kSectionBegin},
                               {"<|tool_calls_section_end|>", Mark::kSectionEnd},
                               {"<|tool_call_begin|>", Mark::kCallBegin},
                               {"<|tool_call_argument_begin|>", Mark::kArguments},
                               {"<|tool_call_end|>", Mark::kCallEnd}};
// Kimi sometimes writes these in ordinary tokens; the vocabulary has no tokens with these names.
constexpr NamedMark kKimiSpelled[] = {{"<|tool_call_section_begin|>", Mark::kSectionBegin},
                                      {"<|tool_call_section_end|>", Mark::kSectionEnd}};
constexpr NamedMark kDeepSeek[] = {{"<｜tool▁calls▁begin｜>", Mark::kSectionBegin},
                                   {"<｜tool▁calls▁end｜>", Mark::kSectionEnd},
                                   {"<｜tool▁call▁begin｜>", Mark::kCallBegin},
                                   {"<｜tool▁sep｜>", Mark::kArguments},
                                   {"<｜tool▁call▁end｜>", Mark::kCallEnd}};
constexpr NamedMark kHermes[] = {{"<tool_call>", Mark::kCallBegin}, {"</tool_call>", Mark::kCallEnd}};

absl::Status AddMarks(const Tokenizer& tokenizer, absl::Span<const NamedMark> named, OutputFormat& format) {
  for (const NamedMark& entry : named) {
    const std::optional<TokenId> id = tokenizer.SpecialId(entry.name);
    if (!id) {
      return absl::InvalidArgumentError(fmt::format(
          "the vocabulary has no token {}, which this parser needs; choose another parser, or auto",
          entry.name));
    }
    format.marks.emplace_back(*id, entry.mark);
  }
  return absl::OkStatus();
}

bool HasMarks(const Tokenizer& tokenizer, absl::Span<const NamedMark> named) {
  OutputFormat ignored;
  return AddMarks(tokenizer, named, ignored).ok();
}

}  // namespace

std::optional<Mark> OutputFormat::Find(TokenId token) const {
  for (const auto& [id, mark] : marks) {
    if (id == token) return mark;
  }
  return std::nullopt;
}

absl::StatusOr<OutputFormat> ChooseOutputFormat(const Tokenizer& tokenizer, std::string_view reasoning_parser,
                                                std::string_view tool_call_parser,
                                                std::string_view chat_template) {
  struct ToolFormat {
    std::string_view name;
    ToolSyntax syntax;
    absl::Span<const NamedMark> marks;
    absl::Span<const NamedMark> spelled;
  };
  const ToolFormat tool_formats[] = {{"kimi_k2", ToolSyntax::kKimi, kKimi, kKimiSpelled},
                                     {"deepseek_v3", ToolSyntax::kDeepSeek, kDeepSeek, {}},
                                     {"hermes", ToolSyntax::kHermes, kHermes, {}},
                                     {"qwen3_coder", ToolSyntax::kQwenCoder, kHermes, {}}};
  const bool shows_xml = chat_template.find("<function=") != std::string_view::npos;
  const auto by_itself = [&](const ToolFormat& tools) {
    if (tools.syntax == ToolSyntax::kHermes && shows_xml) return false;
    return HasMarks(tokenizer, tools.marks);
  };
  OutputFormat format;
  if (reasoning_parser == "think" || (reasoning_parser == "auto" && HasMarks(tokenizer, kThink))) {
    RETURN_IF_ERROR(Annotate(AddMarks(tokenizer, kThink, format), "--reasoning-parser=think"));
  } else if (reasoning_parser != "auto" && reasoning_parser != "none") {
    return absl::InvalidArgumentError(
        fmt::format("--reasoning-parser={}: expected auto, think or none", reasoning_parser));
  }
  if (tool_call_parser == "none") return format;
  for (const ToolFormat& tools : tool_formats) {
    if (tool_call_parser != tools.name && (tool_call_parser != "auto" || !by_itself(tools))) continue;
    RETURN_IF_ERROR(
        Annotate(AddMarks(tokenizer, tools.marks, format), fmt::format("--tool-call-parser={}", tools.name)));
    format.tools = tools.syntax;
    for (const NamedMark& entry : tools.spelled) format.spelled.emplace_back(entry.name, entry.mark);
    return format;
  }
  if (tool_call_parser == "auto") return format;
  return absl::InvalidArgumentError(
      fmt::format("--tool-call-parser={}: expected auto, kimi_k2, deepseek_v3, hermes, qwen3_coder or none",
                  tool_call_parser));
}

std::optional<Mark> PromptMark(const OutputFormat& format, const Tokenizer& tokenizer,
                               absl::Span<const TokenId> prompt) {
  bool text_after = false;
  for (auto token = prompt.rbegin(); token != prompt.rend(); ++token) {
    const std::optional<Mark> mark = format.Find(*token);
    if (mark == Mark::kThinkBegin) return mark;
    if (mark == Mark::kThinkEnd) return text_after ? std::nullopt : mark;
    // This is the mark of the turn's role; the tokens before it belong to earlier turns.
    if (tokenizer.IsSpecial(*token)) break;
    text_after = text_after || !Trimmed(tokenizer.TokenBytes(*token)).empty();
  }
  return std::nullopt;
}

}  // namespace numoe::text
