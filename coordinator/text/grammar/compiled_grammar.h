// CompiledGrammar and GrammarState: constrain what a sequence may generate, by masks over the vocabulary.
//
// A GrammarSource (JSON Schema, any JSON object, regex, choice list, EBNF, structural tag) is compiled once
// into an immutable CompiledGrammar that any number of requests share; each sequence has a GrammarState. The
// engine asks FillMask before sampling and tells Accept what was drawn. CONTRACT.md has the guarantees, what
// each source supports, and the EBNF dialect. Compile errors are INVALID_ARGUMENT (wrong), UNIMPLEMENTED (not
// supported) or RESOURCE_EXHAUSTED (beyond a limit); they name the place: a JSON pointer, a byte or a line. A
// CompiledGrammar is thread-safe, a GrammarState belongs to one thread at a time.
#pragma once

#include <compare>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/text/grammar/grammar_limits.h"
#include "coordinator/text/grammar/pushdown.h"
#include "coordinator/text/grammar/token_masks.h"
#include "coordinator/text/grammar/vocabulary.h"

namespace numoe::text {

struct GrammarSource {
  enum class Kind : uint8_t { kJsonSchema, kJsonObject, kRegex, kChoice, kEbnf, kStructuralTag };
  Kind kind = Kind::kJsonObject;
  /// The schema or structural tag as JSON text, the regular expression, the choices as a JSON array of
  /// strings, or the grammar. Nothing for kJsonObject.
  std::string text;
  /// A fixed frame around it: one of `before`, if there are any, comes first, and `after` last. What a tool
  /// call has beside its arguments, say: tokens may reach across, so the frame is part of the grammar.
  std::vector<std::string> before = {};
  std::string after = {};
  auto operator<=>(const GrammarSource&) const = default;

  size_t bytes() const;
};

class CompiledGrammar {
 public:
  static absl::StatusOr<std::shared_ptr<const CompiledGrammar>> Compile(
      const GrammarSource& source, std::shared_ptr<const GrammarVocabulary> vocabulary,
      const GrammarLimits& limits = {});

  const grammar::Program& program() const { return program_; }
  const grammar::TokenMasks& masks() const { return masks_; }
  const GrammarVocabulary& vocabulary() const { return masks_.vocabulary(); }
  /// In memory, by now; grows as masks are computed.
  size_t bytes() const { return program_.bytes() + masks_.bytes(); }

  /// Use Compile.
  CompiledGrammar(grammar::Program program, std::shared_ptr<const GrammarVocabulary> vocabulary);

 private:
  const grammar::Program program_;
  const grammar::TokenMasks masks_;
};

class GrammarState {
 public:
  /// `end_tokens`: what the finished text is followed by, if not the vocabulary's; a tool call's arguments,
  /// say, by the token that ends them.
  explicit GrammarState(std::shared_ptr<const CompiledGrammar> grammar,
                        absl::Span<const TokenId> end_tokens = {});

  /// Sets exactly the bits of the tokens that may come next: token t is bit t % 64 of word t / 64. End tokens
  /// are allowed exactly when IsDone. RESOURCE_EXHAUSTED: the grammar is so ambiguous that the mask would
  /// take too long; end the request with it. REQUIRES: mask.size() == vocabulary().mask_words().
  absl::Status FillMask(absl::Span<uint64_t> mask);
  /// The same, beside the bits that are set already.
  absl::Status AddMask(absl::Span<uint64_t> mask);

  /// The same by walking the vocabulary with nothing precomputed: slow, what tests compare FillMask with.
  absl::Status FillMaskByWalking(absl::Span<uint64_t> mask);

  /// Goes on by a drawn token. False, and nothing changes, if the mask did not allow it.
  bool Accept(TokenId token);
  /// Takes back the last `tokens` accepted ones. REQUIRES: at most kGrammarRollbackTokensMax of them.
  void Rollback(size_t tokens);

  /// The text so far is complete: an end token is allowed.
  bool IsDone() const { return kernel_.reached_base; }
  /// An end token was accepted; nothing can follow.
  bool IsFinished() const { return finished_; }
  /// Bytes that must come next, whatever is drawn; at most `bytes_max`. "" when the text may end here. For
  /// jump-ahead: they can be appended without asking the model.
  std::string ForcedBytes(size_t bytes_max) const;

 private:
  struct Snapshot {
    grammar::Kernel kernel;
    size_t frames = 0;
    bool finished = false;
  };

  absl::Status FinishMask(bool within_budget, absl::Span<uint64_t> mask) const;
  bool AcceptText(std::string_view bytes);

  std::shared_ptr<const CompiledGrammar> grammar_;
  grammar::Pushdown machine_;
  grammar::Kernel kernel_;
  std::vector<TokenId> end_tokens_;
  bool finished_ = false;
  std::deque<Snapshot> history_;  // before each of the last accepted tokens
};

}  // namespace numoe::text
