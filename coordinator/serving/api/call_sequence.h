// CallSequence: the calls of one answer, in the model's own format, as token masks.
//
// Marks are single tokens; the text between them is a head, one of a few literals that name the tool, and a
// body, a grammar for its arguments. Kimi and DeepSeek V3.1 have the name in the head; Hermes and DeepSeek V3
// have it in the body, whose grammar then begins with it, and all bodies that are still possible are followed
// at once. CallForms is what the tools of a request make of that: compiled once, immutable, thread-safe. A
// CallSequence belongs to its answer and one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/serving/api/tool_choice.h"
#include "coordinator/text/grammar/grammar_cache.h"
#include "coordinator/text/grammar/literal_choice.h"
#include "coordinator/text/parsing/output_format.h"

namespace numoe::serving {

struct CallForms {
  struct Head {
    std::string text;
    std::vector<size_t> bodies;  // which may follow it
  };

  text::ToolSyntax syntax = text::ToolSyntax::kNone;
  std::vector<Head> heads;  // none: a call is its body
  std::vector<std::shared_ptr<const text::CompiledGrammar>> bodies;
};

/// Errors are those of grammars, and name the tool. REQUIRES: a syntax other than kNone, and calls.
absl::StatusOr<std::shared_ptr<const CallForms>> CompileCallForms(const std::vector<DeclaredCall>& calls,
                                                                  text::ToolSyntax syntax,
                                                                  text::GrammarCache& grammars);

class CallSequence {
 public:
  CallSequence(std::shared_ptr<const CallForms> forms, const text::OutputFormat& format,
               const CallPolicy& policy);

  const text::GrammarVocabulary& vocabulary() const { return forms_->bodies[0]->vocabulary(); }
  /// The mark that begins the calls where they are expected.
  std::vector<TokenId> FirstMarks() const;
  /// That, or one that begins calls where it is a slip: a call outside a section.
  bool Begins(TokenId token) const;

  /// Sets the bits of what may come next. At the beginning that is FirstMarks and white space before them.
  absl::Status AddMask(absl::Span<uint64_t> mask);
  /// REQUIRES: the mask had it, or it is the first and Begins.
  void Accept(TokenId token);

 private:
  // kGap: before, between and behind calls. kOver: only the answer's end may follow.
  enum class At : uint8_t { kGap, kHead, kBody, kOver };

  void Allow(text::Mark mark, absl::Span<uint64_t> mask) const;
  void AllowEnd(absl::Span<uint64_t> mask) const;
  void EnterGap();
  void BeginCall();
  void BeginBody();
  void AcceptInBody(TokenId token);

  const std::shared_ptr<const CallForms> forms_;
  std::vector<std::pair<TokenId, text::Mark>> marks_;
  std::vector<TokenId> call_end_;
  const int first_index_;
  const bool parallel_;
  bool sections_ = false;  // the format has them
  bool in_section_ = false;
  int calls_ = 0;
  At at_ = At::kGap;
  std::optional<text::LiteralChoice> literal_;  // of the gap or the head
  std::vector<text::GrammarState> bodies_;      // the possible ones
};

}  // namespace numoe::serving
