// CompiledGrammar and GrammarState: constrain the text that a sequence generates, by masks over the
// vocabulary.
//
// A GrammarSource (JSON Schema, any JSON object, regex, choice list, EBNF, structural tag) is compiled once
// into an immutable CompiledGrammar that any number of requests share; each sequence has a GrammarState. The
// engine calls FillMask before it samples a token and Accept with the sampled token. CONTRACT.md has the
// guarantees, what is supported of each kind of source, and the EBNF dialect. Compile errors are
// INVALID_ARGUMENT (wrong), UNIMPLEMENTED (not supported) or RESOURCE_EXHAUSTED (beyond a limit); they name
// the place: a JSON pointer, a byte or a line. A CompiledGrammar is thread-safe; a GrammarState belongs to
// one thread at a time.
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
  /// strings, or the EBNF grammar. Empty for kJsonObject.
  std::string text;
  /// Fixed text around it, for example the parts of a tool call beside its arguments: one of `before`, if
  /// there are any, comes first, and `after` comes last. It is part of the grammar because tokens may extend
  /// across its ends.
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
  /// The memory in use; it grows when masks are computed.
  size_t bytes() const { return program_.bytes() + masks_.bytes(); }

  /// Public only for Compile, which should be used instead.
  CompiledGrammar(grammar::Program program, std::shared_ptr<const GrammarVocabulary> vocabulary);

 private:
  const grammar::Program program_;
  const grammar::TokenMasks masks_;
};

class GrammarState {
 public:
  /// `end_tokens` are the tokens that may follow the finished text, for example the mark after a tool call's
  /// arguments. If there are none, the vocabulary's end tokens are used.
  explicit GrammarState(std::shared_ptr<const CompiledGrammar> grammar,
                        absl::Span<const TokenId> end_tokens = {});

  /// Sets exactly the bits of the tokens that may come next: token t is bit t % 64 of word t / 64. End tokens
  /// are allowed exactly when IsDone. Fails with RESOURCE_EXHAUSTED if the grammar is so ambiguous that the
  /// mask would take too long; the caller then ends the request. REQUIRES: mask.size() ==
  /// vocabulary().mask_words().
  absl::Status FillMask(absl::Span<uint64_t> mask);
  /// Does the same as FillMask, but leaves bits that are already set.
  absl::Status AddMask(absl::Span<uint64_t> mask);

  /// Does the same as FillMask by walking the whole vocabulary, without anything precomputed. It is slow;
  /// tests compare FillMask with it.
  absl::Status FillMaskByWalking(absl::Span<uint64_t> mask);

  /// Advances by a sampled token. If the mask does not allow the token, returns false and changes nothing.
  bool Accept(TokenId token);
  /// Undoes the last `tokens` calls of Accept. REQUIRES: at most kGrammarRollbackTokensMax tokens.
  void Rollback(size_t tokens);

  /// Whether the text so far is complete, so that an end token is allowed.
  bool IsDone() const { return kernel_.reached_base; }
  /// Whether an end token was accepted, so that nothing can follow.
  bool IsFinished() const { return finished_; }
  /// Returns the bytes that must come next in every case, at most `bytes_max`; "" if the text may end here.
  /// For jump-ahead decoding: these bytes can be appended without running the model.
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
  std::deque<Snapshot> history_;  // the states before each of the last accepted tokens
};

}  // namespace numoe::text
