// What an answer may contain: reasoning, then content that matches a grammar, or calls.
#include "coordinator/serving/api/answer_constraint.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

constexpr TokenId kThinkBegin = 256, kThinkEnd = 257, kSectionBegin = 258, kSectionEnd = 259,
                  kCallBegin = 260, kArguments = 261, kCallEnd = 262, kEnd = 263;

// All bytes, then control tokens, which do not occur in text.
std::shared_ptr<const text::GrammarVocabulary> Vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> bytes(256);
    for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = std::string(1, static_cast<char>(b));
    std::vector<std::string_view> tokens(bytes.begin(), bytes.end());
    tokens.resize(kEnd + 1);
    return text::GrammarVocabulary::Build(tokens, {kEnd});
  }();
  return vocabulary;
}

text::OutputFormat Thinking() {
  return {.marks = {{kThinkBegin, text::Mark::kThinkBegin}, {kThinkEnd, text::Mark::kThinkEnd}}};
}
text::OutputFormat Kimi() {
  text::OutputFormat format = Thinking();
  format.tools = text::ToolSyntax::kKimi;
  for (const auto& [token, mark] : {std::pair{kSectionBegin, text::Mark::kSectionBegin},
                                    {kSectionEnd, text::Mark::kSectionEnd},
                                    {kCallBegin, text::Mark::kCallBegin},
                                    {kArguments, text::Mark::kArguments},
                                    {kCallEnd, text::Mark::kCallEnd}})
    format.marks.emplace_back(token, mark);
  return format;
}
text::OutputFormat Hermes() {
  text::OutputFormat format = Thinking();
  format.tools = text::ToolSyntax::kHermes;
  format.marks.emplace_back(kCallBegin, text::Mark::kCallBegin);
  format.marks.emplace_back(kCallEnd, text::Mark::kCallEnd);
  return format;
}

// A tool f that accepts an object, and a tool g that accepts {"n": 1} or {"n": 2}.
CallPolicy Tools(CallPolicy::Choice choice) {
  using Kind = text::GrammarSource::Kind;
  return {.choice = choice,
          .calls = {{"f", {Kind::kJsonObject, ""}},
                    {"g", {Kind::kJsonSchema, R"({"properties":{"n":{"enum":[1,2]}},"required":["n"]})"}}},
          .first_index = 3};
}

GenerationRequest Asking(const CallPolicy& calls) {
  GenerationRequest request;
  request.conversation.emplace();
  request.conversation->calls = calls;
  return request;
}

class AnswerConstraintTest : public ::testing::Test {
 protected:
  // The content must match `regex`, if there is one.
  void Begin(const std::string& regex, const AnswerOutline& outline, const CallPolicy& calls = {}) {
    GenerationRequest request = Asking(calls);
    if (!regex.empty()) request.structure = text::GrammarSource{text::GrammarSource::Kind::kRegex, regex};
    auto constraint = ConstrainAnswer(request, outline, grammars_);
    ASSERT_EQ(constraint.index(), 0u) << std::get<net::ApiError>(constraint).message;
    constraint_ = std::get<0>(std::move(constraint));
    ASSERT_NE(constraint_, nullptr);
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

  text::GrammarCache grammars_{Vocabulary()};
  std::unique_ptr<execution::TokenConstraint> constraint_;
};

TEST_F(AnswerConstraintTest, CallsInXmlAreSampledFreelyAndCannotBeDemanded) {
  text::OutputFormat coder = Hermes();
  coder.tools = text::ToolSyntax::kQwenCoder;
  const auto constrain = [&](CallPolicy::Choice choice) {
    return ConstrainAnswer(Asking(Tools(choice)), {.format = coder}, grammars_);
  };
  const auto free = constrain(CallPolicy::Choice::kAuto);
  ASSERT_EQ(free.index(), 0u);
  EXPECT_EQ(std::get<0>(free), nullptr);
  const auto demanded = constrain(CallPolicy::Choice::kRequired);
  ASSERT_EQ(demanded.index(), 1u);
  EXPECT_THAT(std::get<net::ApiError>(demanded).message, ::testing::HasSubstr("there is no grammar"));
  GenerationRequest both = Asking(Tools(CallPolicy::Choice::kAuto));
  both.structure = text::GrammarSource{text::GrammarSource::Kind::kRegex, "a"};
  both.structure_param = "regex";
  const auto refused = ConstrainAnswer(both, {.format = coder}, grammars_);
  ASSERT_EQ(refused.index(), 1u) << "no call could ever be sampled";
  EXPECT_EQ(std::get<net::ApiError>(refused).param, "regex");
}

TEST_F(AnswerConstraintTest, TheContentMatchesAndThenEnds) {
  Begin("ab?", {.format = text::OutputFormat()});
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
  EXPECT_TRUE(Allows('7')) << "reasoning is optional";
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

TEST_F(AnswerConstraintTest, TheEndOfThePromptDecidesWhatComesFirst) {
  Begin("ok", {.format = Thinking(), .prompt_mark = text::Mark::kThinkBegin});
  Say("hm");
  Say(kThinkEnd);
  Say("ok");
  Say(kEnd);
  Begin("ok", {.format = Thinking(), .prompt_mark = text::Mark::kThinkEnd});
  EXPECT_FALSE(Allows(kThinkBegin));
  Say("ok");
  EXPECT_FALSE(Allows(kThinkBegin));
}

TEST_F(AnswerConstraintTest, CallsMayReplaceTheContent) {
  const CallPolicy tools = Tools(CallPolicy::Choice::kAuto);
  Begin("ok", {.format = Kimi()}, tools);
  EXPECT_FALSE(Allows(kCallBegin)) << "a section begins before its calls";
  Say(kThinkBegin);
  Say("hm");
  Say(kSectionBegin);
  Say(kCallBegin);
  Say("functions.f:3");
  Say(kArguments);
  Say("{}");
  Say(kCallEnd);
  EXPECT_FALSE(Allows(kEnd));
  Say(kSectionEnd);
  EXPECT_FALSE(Allows('o'));
  Say(kEnd);
  Begin("ok", {.format = Kimi()}, tools);
  Say("o");
  EXPECT_FALSE(Allows(kSectionBegin)) << "the content has begun";
  Begin("ok", {.format = Kimi()});
  EXPECT_FALSE(Allows(kSectionBegin));
  Say(kThinkBegin);
  EXPECT_FALSE(Allows(kSectionBegin));
}

TEST_F(AnswerConstraintTest, FormatsWithoutSectionsBeginWithACall) {
  Begin("ok", {.format = Hermes()}, Tools(CallPolicy::Choice::kAuto));
  EXPECT_FALSE(Allows('\n'));
  Say(kCallBegin);
  Say("\n{\"name\": \"g\", \"arguments\": {\"n\": 2}}\n");
  EXPECT_FALSE(Allows(kEnd));
  Say(kCallEnd);
  Say("\n");
  Say(kCallBegin);
  Say("\n{\"name\": \"f\", \"arguments\": {\"any\": [null]}}\n");
  Say(kCallEnd);
  Say(kEnd);
}

TEST_F(AnswerConstraintTest, FreeAnswersAreUnconstrainedUntilTheyCall) {
  Begin("", {.format = Kimi()}, Tools(CallPolicy::Choice::kAuto));
  for (const TokenId token : {kThinkBegin, TokenId{'a'}, kThinkEnd, TokenId{'b'}}) {
    EXPECT_TRUE(constraint_->Mask()->empty()) << "and need no mask";
    Say(token);
  }
  EXPECT_TRUE(Allows(kEnd));
  Say(kSectionBegin);
  EXPECT_FALSE(Allows(kSectionEnd)) << "a section contains at least one call";
  EXPECT_FALSE(Allows('a'));
  Say(kCallBegin);
  Say("functions.");
  EXPECT_FALSE(Allows('h')) << "no tool with this letter is declared";
  Say("g:3");
  EXPECT_FALSE(Allows('4')) << "calls are counted over the conversation";
  Say(kArguments);
  Say("{\"n\":");
  EXPECT_FALSE(Allows('3')) << "the schema does not allow it";
  EXPECT_FALSE(Allows(kCallEnd));
  Say("1}");
  Say(kCallEnd);
  Say(kCallBegin);
  Say("functions.f:4");
  Say(kArguments);
  Say("{\"x\": 1}");
  Say(kCallEnd);
  Say(kSectionEnd);
  EXPECT_FALSE(Allows('a'));
  Say(kEnd);
}

TEST_F(AnswerConstraintTest, ACallOutsideOfASectionIsAccepted) {
  Begin("", {.format = Kimi()}, Tools(CallPolicy::Choice::kAuto));
  Say("<|tool_call_section_begin|>");
  Say(kCallBegin);
  Say("functions.f:3");
  Say(kArguments);
  Say("{}");
  Say(kCallEnd);
  EXPECT_FALSE(Allows(kSectionEnd));
  EXPECT_TRUE(Allows(kCallBegin));
  Say(kEnd);
}

TEST_F(AnswerConstraintTest, OnlyDemandedCallsCanFollowTheReasoning) {
  Begin("", {.format = Kimi()}, Tools(CallPolicy::Choice::kRequired));
  EXPECT_FALSE(Allows('a') || Allows(kEnd) || Allows(kCallBegin));
  EXPECT_TRUE(Allows(kSectionBegin));
  Say(kThinkBegin);
  Say("the user says hi");
  EXPECT_FALSE(Allows(kEnd));
  Say(kThinkEnd);
  EXPECT_FALSE(Allows('a') || Allows('\n') || Allows(kEnd) || Allows(kThinkBegin));
  Say(kSectionBegin);
  Say(kCallBegin);
  Say("functions.g:3");
  Say(kArguments);
  Say("{\"n\": 1}");
  Say(kCallEnd);
  EXPECT_FALSE(Allows(kEnd));
  Say(kSectionEnd);
  Say(kEnd);
  Begin("ok", {.format = Kimi()}, Tools(CallPolicy::Choice::kRequired));
  EXPECT_FALSE(Allows('o')) << "a demanded call leaves no room for content";
  EXPECT_TRUE(Allows(kSectionBegin));
}

TEST_F(AnswerConstraintTest, WhiteSpaceMayComeBeforeACallAsTheModelWritesIt) {
  Begin("", {.format = Hermes()}, Tools(CallPolicy::Choice::kRequired));
  Say(kThinkBegin);
  Say(kThinkEnd);
  EXPECT_FALSE(Allows(kEnd));
  Say("\n\n");
  EXPECT_FALSE(Allows('\n') || Allows(kThinkBegin) || Allows(kEnd));
  Say(kCallBegin);
}

TEST_F(AnswerConstraintTest, WithoutParallelCallsThereIsOne) {
  CallPolicy one = Tools(CallPolicy::Choice::kRequired);
  one.parallel = false;
  Begin("", {.format = Hermes()}, one);
  Say(kCallBegin);
  Say("\n{\"name\": \"f\", \"arguments\": {}}\n");
  Say(kCallEnd);
  EXPECT_FALSE(Allows(kCallBegin));
  Say(kEnd);
}

TEST_F(AnswerConstraintTest, WithoutARequestThereIsNoConstraint) {
  const text::OutputFormat kimi = Kimi(), none = Thinking();
  EXPECT_EQ(std::get<0>(ConstrainAnswer(Asking({}), {.format = kimi}, grammars_)), nullptr);
  EXPECT_EQ(
      std::get<0>(ConstrainAnswer(Asking(Tools(CallPolicy::Choice::kAuto)), {.format = none}, grammars_)),
      nullptr);
}

TEST_F(AnswerConstraintTest, ErrorsNameTheFieldAndTheTool) {
  const text::OutputFormat kimi = Kimi(), none = Thinking();
  const auto refused = [&](const GenerationRequest& request, const text::OutputFormat& format) {
    const auto constraint = ConstrainAnswer(request, {.format = format}, grammars_);
    const net::ApiError* error = std::get_if<net::ApiError>(&constraint);
    EXPECT_NE(error, nullptr);
    return error == nullptr ? net::ApiError() : *error;
  };
  const CallPolicy required = Tools(CallPolicy::Choice::kRequired);
  EXPECT_EQ(refused(Asking(required), none).param, "tool_choice");
  CallPolicy unsupported = required;
  unsupported.calls[1].arguments.text = R"({"type":"object","properties":{"a":{"not":{}}}})";
  const net::ApiError error = refused(Asking(unsupported), kimi);
  EXPECT_EQ(error.param, "tools");
  EXPECT_THAT(error.message, ::testing::HasSubstr("the parameters of g"));
  EXPECT_THAT(error.message, ::testing::HasSubstr("/properties/a"));
  GenerationRequest structured = Asking({});
  structured.structure = text::GrammarSource{text::GrammarSource::Kind::kRegex, "("};
  structured.structure_param = "regex";
  EXPECT_EQ(refused(structured, kimi).param, "regex");
}

}  // namespace
}  // namespace numoe::serving
