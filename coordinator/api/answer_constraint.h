// AnswerConstraint: a grammar for the text of an answer, around what the model's format has beside it.
//
// The grammar says what the content must be. Reasoning comes before it and is free, but cannot end the
// answer: the marks of the format end it. Where tools are declared the model may call them instead of
// answering: the mark that begins the calls is allowed wherever the content could begin, and from there on
// anything is. White space between the marks and the content is not allowed.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "coordinator/grammar/compiled_grammar.h"
#include "coordinator/parsing/output_format.h"
#include "coordinator/sampling/token_constraint.h"

namespace numoe {

struct AnswerOutline {
  const OutputFormat& format;       // copied as far as needed
  std::optional<Mark> prompt_mark;  // PromptMark
  bool calls = false;               // tools are declared
};

class AnswerConstraint final : public TokenConstraint {
 public:
  AnswerConstraint(std::shared_ptr<const CompiledGrammar> grammar, const AnswerOutline& outline);

  absl::StatusOr<absl::Span<const uint64_t>> Mask() override;
  void Accept(TokenId token) override;

 private:
  // kBegin: the content has not begun. kCalls: anything goes.
  enum class Phase : uint8_t { kBegin, kReasoning, kContent, kCalls };

  void Allow(const std::vector<TokenId>& tokens);

  GrammarState state_;
  std::vector<TokenId> think_begin_;  // empty: reasoning cannot begin any more
  std::vector<TokenId> think_end_;
  std::vector<TokenId> calls_begin_;  // empty: no calls
  std::vector<uint64_t> reasoning_;   // the mask within it
  std::vector<uint64_t> mask_;
  Phase phase_ = Phase::kBegin;
};

}  // namespace numoe
