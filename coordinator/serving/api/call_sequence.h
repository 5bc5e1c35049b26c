// CallSequence: token masks for the calls of one answer, in the model's own format.
//
// A mark is a single token. The text between marks is a head, which is one of a few literals that name the
// tool, and a body, which matches a grammar for the arguments. Kimi and DeepSeek V3.1 have the name in the
// head. Hermes and DeepSeek V3 have it in the body, whose grammar then begins with it; all bodies that are
// still possible are followed at the same time. CallForms is compiled once from the tools of a request; it is
// immutable and thread-safe. A CallSequence belongs to one answer and one thread.
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
    std::vector<size_t> bodies;  // indices of the bodies that may follow it
  };

  text::ToolSyntax syntax = text::ToolSyntax::kNone;
  std::vector<Head> heads;  // empty if a call has only a body
  std::vector<std::shared_ptr<const text::CompiledGrammar>> bodies;
};

/// Errors come from grammars, and name the tool. REQUIRES: `syntax` is not kNone, and there are calls.
absl::StatusOr<std::shared_ptr<const CallForms>> CompileCallForms(const std::vector<DeclaredCall>& calls,
                                                                  text::ToolSyntax syntax,
                                                                  text::GrammarCache& grammars);

class CallSequence {
 public:
  CallSequence(std::shared_ptr<const CallForms> forms, const text::OutputFormat& format,
               const CallPolicy& policy);

  const text::GrammarVocabulary& vocabulary() const { return forms_->bodies[0]->vocabulary(); }
  /// The marks that may begin the calls.
  std::vector<TokenId> FirstMarks() const;
  /// Whether the token is one of FirstMarks, or a mark that begins calls although it should not: a call
  /// outside a section.
  bool Begins(TokenId token) const;

  /// Sets the bits of the tokens that may come next; at the beginning: FirstMarks and white space before
  /// them.
  absl::Status AddMask(absl::Span<uint64_t> mask);
  /// REQUIRES: the mask contained the token, or it is the first one and Begins(token).
  void Accept(TokenId token);

 private:
  // kGap: before, between and after calls. kOver: only the end of the answer may follow.
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
  bool sections_ = false;  // the format has sections
  bool in_section_ = false;
  int calls_ = 0;
  At at_ = At::kGap;
  std::optional<text::LiteralChoice> literal_;  // in the gap or in a head
  std::vector<text::GrammarState> bodies_;      // the possible ones
};

}  // namespace numoe::serving
