// Helpers of the grammar tests: vocabularies, functions that feed text to a grammar, and random walks that
// check every guarantee at each step.
//
// A walk samples tokens from the mask until the text may end and a random number says so. At each step the
// mask is compared with a trial of every token. Failures are reported through GoogleTest. Use from one
// thread.
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

/// A vocabulary of all single bytes (id = byte), some pieces of JSON, some words, and the end token, which is
/// the last.
VocabularyPtr SmallVocabulary();

/// Fails the test and returns null if `text` does not compile.
GrammarPtr Compiled(Kind kind, const std::string& text, VocabularyPtr vocabulary = SmallVocabulary());
/// The error of a source that must not compile.
std::string CompileError(Kind kind, const std::string& text, const GrammarLimits& limits = {});

/// Returns whether all of `text` is accepted, byte by byte, and is then complete.
bool Accepts(const GrammarPtr& grammar, std::string_view text);
/// Does the same as Accepts with a random division of `text` into tokens.
bool AcceptsSplit(const GrammarPtr& grammar, std::string_view text, std::mt19937_64& random);

/// Returns a text sampled from the masks; when it gets long, it is ended in the shortest way. If a mask is
/// empty before the end, or no end can be reached, the test fails and the text is empty.
std::string RandomText(const GrammarPtr& grammar, std::mt19937_64& random);

/// Checks that the mask has exactly the tokens that a trial of each token accepts; for small vocabularies.
void CheckMaskByTrying(const GrammarState& state, const CompiledGrammar& grammar);
/// Checks that the mask equals that of a walk without precomputed masks.
void CheckMaskByWalking(GrammarState& state, const std::vector<uint64_t>& mask);

}  // namespace numoe::text
