// OutputFormat: how a checkpoint marks reasoning and tool calls in its answers.
//
// Marks are tokens of the vocabulary that are found by their names and recognised by their ids, so ordinary
// text that only spells a mark remains text. In all formats an answer is the reasoning, if there is any,
// between <think> and </think>, then the content, then the calls.
//
// kimi_k2: one or more calls between <|tool_calls_section_begin|> and <|tool_calls_section_end|>. A call is
// <|tool_call_begin|>functions.NAME:IDX<|tool_call_argument_begin|>JSON<|tool_call_end|>.
//
// deepseek_v3: the same with DeepSeek's marks. A call is NAME <sep> JSON (V3.1), or function <sep> NAME and
// JSON in a ```json fence (V3, R1).
//
// hermes (Qwen3): each call is <tool_call> {"name": NAME, "arguments": JSON} </tool_call>.
//
// qwen3_coder: each call is <tool_call> <function=NAME> ... </function> </tool_call>, where the dots stand
// for <parameter=KEY> TEXT </parameter> of each argument.
//
// Sources: the chat templates published with these checkpoints. Immutable; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::text {

enum class Mark : uint8_t {
  kThinkBegin,
  kThinkEnd,
  kSectionBegin,  // begins a list of calls
  kSectionEnd,
  kCallBegin,
  kArguments,  // between a call's head and its body
  kCallEnd,
};

enum class ToolSyntax : uint8_t { kNone, kKimi, kDeepSeek, kHermes, kQwenCoder };

struct OutputFormat {
  ToolSyntax tools = ToolSyntax::kNone;
  std::vector<std::pair<TokenId, Mark>> marks;        // if empty, everything is content
  std::vector<std::pair<std::string, Mark>> spelled;  // marks that the model writes in ordinary tokens

  std::optional<Mark> Find(TokenId token) const;
};

/// Chooses the format by the names of the parsers. The reasoning parser is auto, think or none; the tool-call
/// parser is auto, kimi_k2, deepseek_v3, hermes, qwen3_coder or none. "auto" chooses the parser whose marks
/// the vocabulary has; Qwen's two forms share a vocabulary, so the example in the chat template decides
/// between them. INVALID_ARGUMENT names an unknown parser, or a token that the chosen parser needs and the
/// vocabulary lacks.
absl::StatusOr<OutputFormat> ChooseOutputFormat(const Tokenizer& tokenizer, std::string_view reasoning_parser,
                                                std::string_view tool_call_parser,
                                                std::string_view chat_template = {});

/// Returns the mark that decides how the answer begins: kThinkBegin if the prompt's last turn has opened the
/// reasoning, kThinkEnd if it has closed the reasoning and no text follows (thinking disabled), nullopt if
/// the model decides that itself or continues content.
std::optional<Mark> PromptMark(const OutputFormat& format, const Tokenizer& tokenizer,
                               absl::Span<const TokenId> prompt);

}  // namespace numoe::text
