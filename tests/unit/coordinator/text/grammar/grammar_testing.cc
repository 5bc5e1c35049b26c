#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

#include <algorithm>
#include <array>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

constexpr size_t kSoftBytes = 150;   // a longer text is ended in the shortest way
constexpr size_t kHardBytes = 4000;  // a walk with a longer text is stuck

bool HasBit(const std::vector<uint64_t>& mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1) != 0;
}

TokenId EndToken(const GrammarVocabulary& vocabulary) { return vocabulary.end_tokens()[0]; }

// The least number of bytes from each state to the end of its rule.
class Distances {
 public:
  explicit Distances(const grammar::Program& program) : program_(program), to_end_(program.states(), kFar) {
    for (bool changed = true; changed;) {
      changed = false;
      for (grammar::StateId s = 0; s < static_cast<grammar::StateId>(program.states()); ++s) {
        const int64_t distance = Best(s);
        changed |= distance < to_end_[static_cast<size_t>(s)];
        to_end_[static_cast<size_t>(s)] = distance;
      }
    }
  }

  // Returns the least number of bytes from `kernel` to the end of the text.
  int64_t ToEnd(const grammar::Kernel& kernel, const grammar::Frames& frames) const {
    int64_t best = kernel.reached_base ? 0 : kFar;
    for (const grammar::Thread& thread : kernel.threads) best = std::min(best, Through(thread, frames));
    return best;
  }

  static constexpr int64_t kFar = 1'000'000'000;

 private:
  int64_t Best(grammar::StateId s) const {
    int64_t best = program_.IsFinal(s) ? 0 : to_end_[static_cast<size_t>(s)];
    for (unsigned b = 0; b < 256; ++b) {
      const grammar::StateId next = program_.Next(s, static_cast<uint8_t>(b));
      if (next >= 0) best = std::min(best, 1 + to_end_[static_cast<size_t>(next)]);
    }
    for (const grammar::Program::Call& call : program_.Calls(s))
      best = std::min(best, program_.rule(call.rule).min +
                                to_end_[static_cast<size_t>(program_.rule(call.rule).start)] +
                                to_end_[static_cast<size_t>(call.to)]);
    return std::min(best, kFar);
  }

  int64_t Through(const grammar::Thread& thread, const grammar::Frames& frames) const {
    int64_t best = kFar;
    if (thread.frame == grammar::kBase) best = 0;
    for (const grammar::Thread& parent : frames.Parents(thread.frame))
      best = std::min(best, parent.state < 0 ? 0 : Through(parent, frames));
    const grammar::Program::RuleInfo& rule = program_.rule(program_.RuleOf(thread.state));
    const int missing = std::max(0, rule.min - thread.count);  // characters of a string
    return std::min(kFar, best + missing + to_end_[static_cast<size_t>(thread.state)]);
  }

  const grammar::Program& program_;
  std::vector<int64_t> to_end_;
};

TokenId Draw(const GrammarVocabulary& vocabulary, const std::vector<uint64_t>& mask,
             std::mt19937_64& random) {
  std::vector<TokenId> allowed;
  for (TokenId token = 0; token < vocabulary.size(); ++token)
    if (HasBit(mask, token)) allowed.push_back(token);
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
}

// Returns the end token if it is allowed, otherwise the allowed single byte after which the end is nearest.
TokenId TokenTowardsTheEnd(const GrammarVocabulary& vocabulary, const std::vector<uint64_t>& mask,
                           const Distances& distances, grammar::Pushdown& machine,
                           const grammar::Kernel& kernel) {
  if (HasBit(mask, EndToken(vocabulary))) return EndToken(vocabulary);
  TokenId best = -1;
  int64_t best_distance = Distances::kFar;
  grammar::Kernel next;
  for (TokenId token = 0; token < vocabulary.size(); ++token) {
    if (vocabulary.bytes(token).size() != 1 || !HasBit(mask, token)) continue;
    machine.Step(kernel, static_cast<uint8_t>(vocabulary.bytes(token)[0]), next);
    const int64_t distance = distances.ToEnd(next, machine.frames());
    if (distance < best_distance) best = token;
    best_distance = std::min(distance, best_distance);
  }
  return best;
}

}  // namespace

VocabularyPtr SmallVocabulary() {
  static const VocabularyPtr* const vocabulary = [] {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
    for (const char* piece :
         {"{\"",      "\":",  "\": ",     "\", \"",   "\",\"", "\"}",  "\"}}", "}}",      "}}}",   "]]",
          "]}",       "}]",   "[{",       "[[",       "[]",    "{}",   "[\"",  "\"]",     "\", ",  ", \"",
          ": \"",     ":\"",  "null",     "true",     "false", "tr",   "ue",   "fal",     "name",  "\"name\"",
          "a",        "ab",   "abc",      "b",        "bc",    "c",    " a",   " the",    "the",   "0",
          "00",       "10",   "12",       "123",      "1.",    ".5",   "e+",   "-1",      "2024",  "-01-",
          "00:00",    "T1",   "\\n",      "\\u",      "\\\"",  "\\\\", "u00",  "é",       "日本",  "日",
          "\xe6\x97", "\xa5", "😀",        "\xf0\x9f", "  ",    "\n  ", "id",   "\"id\":", "value", "x",
          "xx",       "xxxx", "xxxxxxxx", "y\"",      "@",     ".com", "://",  "http",    "1,",    ", 1",
          "]]]]",     "[[[[", "{\"a",     "a\":",     "a\": "})
      tokens.emplace_back(piece);
    tokens.emplace_back();  // the end token has no bytes
    std::vector<std::string_view> views(tokens.begin(), tokens.end());
    const auto end = static_cast<TokenId>(tokens.size()) - 1;
    return new VocabularyPtr(GrammarVocabulary::Build(views, {&end, 1}));
  }();
  return *vocabulary;
}

GrammarPtr Compiled(Kind kind, const std::string& text, VocabularyPtr vocabulary) {
  auto grammar = CompiledGrammar::Compile({kind, text}, std::move(vocabulary));
  EXPECT_TRUE(grammar.ok()) << grammar.status() << "\n" << text;
  return grammar.ok() ? *std::move(grammar) : nullptr;
}

std::string CompileError(Kind kind, const std::string& text, const GrammarLimits& limits) {
  const auto grammar = CompiledGrammar::Compile({kind, text}, SmallVocabulary(), limits);
  EXPECT_FALSE(grammar.ok()) << text;
  return grammar.ok() ? "" : std::string(grammar.status().message());
}

bool Accepts(const GrammarPtr& grammar, std::string_view text) {
  if (grammar == nullptr) return false;
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  std::array<TokenId, 256> tokens;
  tokens.fill(-1);
  for (int32_t n = 1; n < vocabulary.node_count(); n = vocabulary.nodes()[static_cast<size_t>(n)].end) {
    const GrammarVocabulary::Node& node = vocabulary.nodes()[static_cast<size_t>(n)];
    tokens[node.byte] = vocabulary.sorted_tokens()[static_cast<size_t>(node.first_token)];
  }
  GrammarState state(grammar);
  for (const char c : text)
    if (!state.Accept(tokens[static_cast<uint8_t>(c)])) return false;
  return state.IsDone();
}

bool AcceptsSplit(const GrammarPtr& grammar, std::string_view text, std::mt19937_64& random) {
  if (grammar == nullptr) return false;
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  GrammarState state(grammar);
  while (!text.empty()) {
    std::vector<TokenId> fitting;
    for (TokenId token = 0; token < vocabulary.size(); ++token) {
      const std::string_view bytes = vocabulary.bytes(token);
      if (!bytes.empty() && text.substr(0, bytes.size()) == bytes) fitting.push_back(token);
    }
    const TokenId token = fitting[random() % fitting.size()];
    if (!state.Accept(token)) return false;
    text.remove_prefix(vocabulary.bytes(token).size());
  }
  return state.IsDone() && state.Accept(EndToken(vocabulary)) && state.IsFinished();
}

std::string RandomText(const GrammarPtr& grammar, std::mt19937_64& random) {
  if (grammar == nullptr) return "";
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  const Distances distances(grammar->program());
  GrammarState state(grammar);
  grammar::Pushdown machine(&grammar->program());
  grammar::Kernel kernel = machine.Start(), next;
  std::string text;
  std::vector<uint64_t> mask(vocabulary.mask_words());
  while (text.size() < kHardBytes) {
    const absl::Status status = state.FillMask(absl::MakeSpan(mask));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(HasBit(mask, EndToken(vocabulary)), state.IsDone()) << text;
    EXPECT_LT(distances.ToEnd(kernel, machine.frames()), Distances::kFar) << text;
    if (random() % 4 == 0) CheckMaskByWalking(state, mask);
    const TokenId token = text.size() < kSoftBytes
                              ? Draw(vocabulary, mask, random)
                              : TokenTowardsTheEnd(vocabulary, mask, distances, machine, kernel);
    if (token < 0 || !status.ok()) {
      ADD_FAILURE() << "no token is allowed after: " << text;
      return "";
    }
    EXPECT_TRUE(state.Accept(token)) << "the mask allows a token that Accept refuses after: " << text;
    if (state.IsFinished()) return text;
    text += vocabulary.bytes(token);
    for (const char byte : vocabulary.bytes(token)) {
      machine.Step(kernel, static_cast<uint8_t>(byte), next);
      std::swap(kernel, next);
    }
  }
  ADD_FAILURE() << "the text does not end: " << text;
  return "";
}

void CheckMaskByTrying(const GrammarState& state, const CompiledGrammar& grammar) {
  GrammarState copy = state;
  std::vector<uint64_t> mask(grammar.vocabulary().mask_words());
  ASSERT_TRUE(copy.FillMask(absl::MakeSpan(mask)).ok());
  for (TokenId token = 0; token < grammar.vocabulary().size(); ++token) {
    GrammarState tried = state;
    EXPECT_EQ(HasBit(mask, token), tried.Accept(token)) << "token " << token;
  }
}

void CheckMaskByWalking(GrammarState& state, const std::vector<uint64_t>& mask) {
  std::vector<uint64_t> walked(mask.size());
  ASSERT_TRUE(state.FillMaskByWalking(absl::MakeSpan(walked)).ok());
  ASSERT_EQ(walked, mask);
}

}  // namespace numoe::text
