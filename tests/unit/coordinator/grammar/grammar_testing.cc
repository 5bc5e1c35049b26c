#include "tests/unit/coordinator/grammar/grammar_testing.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace numoe {
namespace {

constexpr size_t kSoftBytes = 150;   // from here on a walk prefers to end
constexpr size_t kHardBytes = 4000;  // a walk that still goes on is stuck

bool HasBit(const std::vector<uint64_t>& mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1) != 0;
}

TokenId EndToken(const GrammarVocabulary& vocabulary) { return vocabulary.end_tokens()[0]; }

// Short tokens that close something rank first.
int Eagerness(std::string_view bytes) {
  static const std::string_view kClosers = "}]\"";
  if (bytes.size() == 1 && kClosers.find(bytes[0]) != std::string_view::npos) return 3;
  if (bytes.size() == 1) return 2;
  return 1;
}

TokenId Draw(const GrammarVocabulary& vocabulary, const std::vector<uint64_t>& mask, bool hurry,
             std::mt19937_64& random) {
  std::vector<TokenId> allowed;
  int best = 0;
  for (TokenId token = 0; token < vocabulary.size(); ++token) {
    if (!HasBit(mask, token)) continue;
    const int rank = !hurry ? 0 : vocabulary.IsEnd(token) ? 4 : Eagerness(vocabulary.bytes(token));
    if (rank > best) allowed.clear();
    best = std::max(best, rank);
    if (rank == best) allowed.push_back(token);
  }
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
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

VocabularyPtr KimiVocabulary() {
  static const VocabularyPtr* const vocabulary = []() -> VocabularyPtr* {
    if (!std::filesystem::exists("../shared/data/kimi/tiktoken.model")) return new VocabularyPtr;
    const auto tokenizer = Tokenizer::Load("../shared/data/kimi");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    const TokenId end = *(*tokenizer)->SpecialId("<|im_end|>");
    return new VocabularyPtr(GrammarVocabulary::Build(**tokenizer, {&end, 1}));
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
  GrammarState state(grammar);
  for (const char c : text)
    if (!state.Accept(static_cast<uint8_t>(c))) return false;
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
  GrammarState state(grammar);
  std::string text;
  std::vector<uint64_t> mask(vocabulary.mask_words());
  while (text.size() < kHardBytes) {
    const absl::Status status = state.FillMask(absl::MakeSpan(mask));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(HasBit(mask, EndToken(vocabulary)), state.IsDone()) << text;
    if (random() % 4 == 0) CheckMaskByWalking(state, mask);
    const TokenId token = Draw(vocabulary, mask, text.size() > kSoftBytes, random);
    if (token < 0 || !status.ok()) {
      ADD_FAILURE() << "no token is allowed after: " << text;
      return "";
    }
    EXPECT_TRUE(state.Accept(token)) << "the mask allows what Accept refuses after: " << text;
    if (state.IsFinished()) return text;
    text += vocabulary.bytes(token);
  }
  ADD_FAILURE() << "no end in sight: " << text;
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

}  // namespace numoe
