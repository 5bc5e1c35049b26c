// A grammar for the content of an answer, with reasoning before it and calls instead of it.
#include "coordinator/api/answer_constraint.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

constexpr TokenId kThinkBegin = 256, kThinkEnd = 257, kSectionBegin = 258, kCallBegin = 259, kEnd = 260;

// All bytes, then control tokens, which are in no text.
std::shared_ptr<const GrammarVocabulary> Vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> bytes(256);
    for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = std::string(1, static_cast<char>(b));
    std::vector<std::string_view> tokens(bytes.begin(), bytes.end());
    tokens.resize(kEnd + 1);
    return GrammarVocabulary::Build(tokens, {kEnd});
  }();
  return vocabulary;
}

OutputFormat Thinking() {
  return {.marks = {{kThinkBegin, Mark::kThinkBegin}, {kThinkEnd, Mark::kThinkEnd}}};
}
OutputFormat Kimi() {
  OutputFormat format = Thinking();
  format.marks.emplace_back(kSectionBegin, Mark::kSectionBegin);
  format.marks.emplace_back(kCallBegin, Mark::kCallBegin);
  return format;
}

class AnswerConstraintTest : public ::testing::Test {
 protected:
  // The content must match `regex`.
  void Begin(const std::string& regex, const AnswerOutline& outline) {
    const auto grammar = CompiledGrammar::Compile({GrammarSource::Kind::kRegex, regex}, Vocabulary());
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    constraint_ = std::make_unique<AnswerConstraint>(*grammar, outline);
  }
  bool Allows(TokenId token) {
    const auto mask = constraint_->Mask();
    EXPECT_TRUE(mask.ok()) << mask.status();
    return mask->empty() || ((*mask)[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
  }
  void Say(TokenId token) {
    ASSERT_TRUE(Allows(token)) << token;
    constraint_->Accept(token);
  }
  void Say(std::string_view text) {
    for (const char c : text) Say(static_cast<TokenId>(static_cast<unsigned char>(c)));
  }

  std::unique_ptr<AnswerConstraint> constraint_;
};

TEST_F(AnswerConstraintTest, TheContentMatchesAndThenEnds) {
  Begin("ab?", {.format = OutputFormat()});
  EXPECT_FALSE(Allows('b'));
  EXPECT_FALSE(Allows(kEnd));
  Say("a");
  EXPECT_TRUE(Allows(kEnd));
  Say("b");
  EXPECT_FALSE(Allows('b'));
  Say(kEnd);
}

TEST_F(AnswerConstraintTest, ReasoningIsFreeButCannotEndTheAnswer) {
  Begin("[0-9]+", {.format = Thinking()});
  EXPECT_TRUE(Allows('7')) << "it need not reason";
  EXPECT_FALSE(Allows('x'));
  Say(kThinkBegin);
  Say("x = 3\n");
  EXPECT_FALSE(Allows(kEnd));
  EXPECT_FALSE(Allows(kThinkBegin));
  Say(kThinkEnd);
  EXPECT_FALSE(Allows(kThinkBegin)) << "once";
  EXPECT_FALSE(Allows('x'));
  Say("42");
  Say(kEnd);
}

TEST_F(AnswerConstraintTest, WhereThePromptStandsDecidesWhatComesFirst) {
  Begin("ok", {.format = Thinking(), .prompt_mark = Mark::kThinkBegin});
  Say("hm");
  Say(kThinkEnd);
  Say("ok");
  Say(kEnd);
  Begin("ok", {.format = Thinking(), .prompt_mark = Mark::kThinkEnd});
  EXPECT_FALSE(Allows(kThinkBegin));
  Say("ok");
  EXPECT_FALSE(Allows(kThinkBegin));
}

TEST_F(AnswerConstraintTest, CallsMayStandInsteadOfTheContent) {
  Begin("ok", {.format = Kimi(), .calls = true});
  EXPECT_FALSE(Allows(kCallBegin)) << "a section begins before its calls";
  Say(kThinkBegin);
  Say("hm");
  Say(kSectionBegin);
  Say(kCallBegin);
  Say("{}");
  Say(kEnd);
  Begin("ok", {.format = Kimi(), .calls = true});
  Say("o");
  EXPECT_FALSE(Allows(kSectionBegin)) << "the content has begun";
  Begin("ok", {.format = Kimi(), .calls = false});
  EXPECT_FALSE(Allows(kSectionBegin));
  Say(kThinkBegin);
  EXPECT_FALSE(Allows(kSectionBegin));
}

TEST_F(AnswerConstraintTest, FormatsWithoutSectionsBeginWithACall) {
  OutputFormat hermes = Thinking();
  hermes.marks.emplace_back(kCallBegin, Mark::kCallBegin);
  Begin("ok", {.format = hermes, .calls = true});
  Say(kCallBegin);
  Say("anything");
  Say(kEnd);
}

}  // namespace
}  // namespace numoe
