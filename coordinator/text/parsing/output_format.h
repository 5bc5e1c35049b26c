// OutputFormat: how a checkpoint marks reasoning and tool calls in what it says.
//
// Marks are tokens of the vocabulary, found by name, so that text which merely spells one is text. In all
// formats reasoning, if there is any, is <think>..</think>, and the content and then the calls come after it.
//
// kimi_k2: one or more calls stand between <|tool_calls_section_begin|> and <|tool_calls_section_end|>. A
// call is <|tool_call_begin|>functions.NAME:IDX<|tool_call_argument_begin|>JSON<|tool_call_end|>.
//
// deepseek_v3: the same with DeepSeek's marks. A call is NAME <sep> JSON (V3.1), or function <sep> NAME and
// JSON in a ```json fence (V3, R1).
//
// hermes (Qwen3): each call is <tool_call> {"name": NAME, "arguments": JSON} </tool_call>.
//
// qwen3_coder: each call is <tool_call> <function=NAME> ... </function> </tool_call>, where the dots are
// <parameter=KEY> TEXT </parameter> for each argument.
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
  kSectionBegin,  // a list of calls
  kSectionEnd,
  kCallBegin,
  kArguments,  // between a call's head and its body
  kCallEnd,
};

enum class ToolSyntax : uint8_t { kNone, kKimi, kDeepSeek, kHermes, kQwenCoder };

struct OutputFormat {
  ToolSyntax tools = ToolSyntax::kNone;
  std::vector<std::pair<TokenId, Mark>> marks;        // empty: everything is content
  std::vector<std::pair<std::string, Mark>> spelled;  // marks that come as ordinary text

  std::optional<Mark> Find(TokenId token) const;
};

/// Reasoning: auto, think, none; tool calls: auto, kimi_k2, deepseek_v3, hermes, qwen3_coder, none. "auto"
/// takes what the vocabulary has marks for; Qwen's two forms, of one vocabulary, are told apart by what the
/// chat template shows the model. INVALID_ARGUMENT names a token that the chosen parser needs and the
/// vocabulary lacks, or a parser that does not exist.
absl::StatusOr<OutputFormat> ChooseOutputFormat(const Tokenizer& tokenizer, std::string_view reasoning_parser,
                                                std::string_view tool_call_parser,
                                                std::string_view chat_template = {});

/// The mark that the last turn of the prompt ends behind: kThinkBegin where the template has opened the
/// reasoning, kThinkEnd where it has closed it (thinking disabled), nullopt where the model decides or goes
/// on with content.
std::optional<Mark> PromptMark(const OutputFormat& format, const Tokenizer& tokenizer,
                               absl::Span<const TokenId> prompt);

}  // namespace numoe::text
