// What the grammar tests share: vocabularies, feeding text, and random walks that check every promise on the
// way.
//
// A walk draws tokens from the mask until the text may end and the dice say so; at each step the mask is
// compared with trying tokens one by one. Failures are reported through GoogleTest. One thread.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/grammar/compiled_grammar.h"

namespace numoe::text {

using GrammarPtr = std::shared_ptr<const CompiledGrammar>;
using VocabularyPtr = std::shared_ptr<const GrammarVocabulary>;
using Kind = GrammarSource::Kind;

/// All single bytes (id = byte), some pieces of JSON and words, and one end token, the last.
VocabularyPtr SmallVocabulary();

/// Fails the test and returns null if `text` does not compile.
GrammarPtr Compiled(Kind kind, const std::string& text, VocabularyPtr vocabulary = SmallVocabulary());
/// The error of a source that must not compile.
std::string CompileError(Kind kind, const std::string& text, const GrammarLimits& limits = {});

/// Byte by byte: is all of `text` accepted, and complete?
bool Accepts(const GrammarPtr& grammar, std::string_view text);
/// The same with tokens drawn at random among those that `text` goes on with.
bool AcceptsSplit(const GrammarPtr& grammar, std::string_view text, std::mt19937_64& random);

/// A text drawn from the masks; when it gets long, it is ended by the shortest way. Empty and a test failure
/// if a mask is ever empty before the end, or no end can be reached.
std::string RandomText(const GrammarPtr& grammar, std::mt19937_64& random);

/// The mask must be exactly what trying each token finds; for small vocabularies.
void CheckMaskByTrying(const GrammarState& state, const CompiledGrammar& grammar);
/// The mask must be exactly what a walk without precomputed masks finds.
void CheckMaskByWalking(GrammarState& state, const std::vector<uint64_t>& mask);

}  // namespace numoe::text
