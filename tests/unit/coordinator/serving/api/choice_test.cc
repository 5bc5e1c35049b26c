// From token events to answers, with a real tokenizer: streamed text adds up to the complete text, and stop
// tokens and stop strings are not part of it.
#include "coordinator/serving/api/choice.h"

#include <memory>

#include "coordinator/text/tokenizer/utf8.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/one_answer.h"

namespace numoe::serving {
namespace {

constexpr char kText[] = "Grüße, 世界 🎉";

std::string Text(const std::vector<text::AnswerDelta>& deltas) {
  if (deltas.empty()) return "";
  EXPECT_EQ(deltas.size(), 1u) << "adjacent content is one delta";
  EXPECT_EQ(deltas[0].kind, text::AnswerDelta::Kind::kContent);
  return deltas[0].text;
}

class ChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = text::Tokenizer::Load("tests/unit/coordinator/text/tokenizer/testdata/qwen3");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    eos_ = *tokenizer_->SpecialId("<|im_end|>");
    eos_ids_ = {eos_};
  }
  Choice Make(const GenerationRequest& request) const {
    return Choice(
        request, {.tokenizer = *tokenizer_, .format = format_, .eos_token_ids = eos_ids_, .prompt = prompt_});
  }
  std::vector<TokenId> Ids(const std::string& text) const {
    return tokenizer_->Encode(text, text::Specials::kAsText);
  }
  // One event for each token; the last one finishes.
  std::string TakeAll(Choice& choice, const std::vector<TokenId>& ids, engine::FinishReason finish) const {
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      text += Text(choice
                       .Take({.tokens = {ids[i]},
                              .finish = i + 1 == ids.size() ? finish : engine::FinishReason::kNone,
                              .error = {}})
                       .deltas);
    }
    return text;
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  const text::OutputFormat format_{};  // no marks: everything is content
  const std::vector<TokenId> prompt_ = {1, 2, 3, 4, 5};
  TokenId eos_ = 0;
  std::vector<TokenId> eos_ids_;
};

TEST_F(ChoiceTest, TextIsReleasedInWholeCharactersAndAddsUp) {
  const std::vector<TokenId> ids = Ids(kText);
  ASSERT_GT(ids.size(), 8u) << "the test needs characters that consist of several tokens";
  Choice choice = Make(ChatOf());
  std::string text;
  size_t silent = 0;
  for (const TokenId id : ids) {
    const ChoiceStep step = choice.Take({.tokens = {id}, .error = {}});
    text += Text(step.deltas);
    silent += !step.says_something();
    EXPECT_EQ(text::ReplaceInvalidUtf8(text), text) << "a part of a character was released";
  }
  EXPECT_GT(silent, 0u);
  EXPECT_FALSE(choice.done());
  text += Text(choice.Take({.finish = engine::FinishReason::kLength, .error = {}}).deltas);
  EXPECT_TRUE(choice.done());
  EXPECT_EQ(text, kText);
  EXPECT_EQ(choice.answer().content, kText);
  EXPECT_EQ(choice.finish_reason(), "length");
  EXPECT_EQ(choice.completion_tokens(), static_cast<int>(ids.size()));
}

TEST_F(ChoiceTest, AnEchoIsTheClientsTextWithoutTheAddedFirstToken) {
  const ByteTokenizer begins({"!<bos>"}, {}, "<bos>");
  const TokenId bos = *begins.SpecialId("<bos>");
  const std::vector<TokenId> prompt = {bos, 'a', 'b'};
  const auto echo = [&](const Prompt& asked) {
    GenerationRequest request;
    request.echo = true;
    request.prompts = {asked};
    Choice choice(request,
                  {.tokenizer = begins, .format = format_, .eos_token_ids = eos_ids_, .prompt = prompt});
    return Text(choice.Take({.tokens = {'c'}, .error = {}}).deltas);
  };
  EXPECT_EQ(echo({.text = "ab"}), "abc");
  EXPECT_EQ(echo({.text = "<bos>ab"}), "<bos>abc");
  EXPECT_EQ(echo({.tokens = prompt}), "<bos>abc");
}

TEST_F(ChoiceTest, TheTokenThatEndsAnAnswerIsCountedButNotText) {
  const TokenId own = Ids("!")[0];
  GenerationRequest request = ChatOf();
  request.sampling.stop_token_ids = {own};
  for (const TokenId last : {eos_, own}) {
    Choice choice = Make(request);
    std::vector<TokenId> ids = Ids("abc");
    ids.push_back(last);
    EXPECT_EQ(TakeAll(choice, ids, engine::FinishReason::kStop), "abc");
    EXPECT_FALSE(choice.ended_early());
    EXPECT_EQ(choice.completion_tokens(), static_cast<int>(ids.size()));
    EXPECT_EQ(choice.finish_reason(), "stop");
    const auto* reason = std::get_if<TokenId>(&choice.stop_reason());
    EXPECT_EQ(reason != nullptr && *reason == own, last == own) << "the model's own end has no stop reason";
  }
}

TEST_F(ChoiceTest, AStopStringEndsTheAnswerBeforeTheEngineDoes) {
  for (const bool include : {false, true}) {
    GenerationRequest request = ChatOf({"界"});
    request.include_stop = include;
    Choice choice = Make(request);
    EXPECT_EQ(TakeAll(choice, Ids(kText), engine::FinishReason::kNone),
              include ? "Grüße, 世界" : "Grüße, 世");
    EXPECT_TRUE(choice.done() && choice.ended_early());
    EXPECT_TRUE(choice.Take({.tokens = Ids("x"), .finish = engine::FinishReason::kLength, .error = {}})
                    .deltas.empty());
    EXPECT_EQ(choice.finish_reason(), "stop");
    EXPECT_EQ(std::get<std::string>(choice.stop_reason()), "界");
  }
}

TEST_F(ChoiceTest, StopStringsCountAfterMinTokens) {
  GenerationRequest request = ChatOf({"a"});
  request.sampling.min_tokens = 3;
  Choice choice = Make(request);
  std::vector<TokenId> ids;
  for (const char* text : {"a", "b", "a", "c"}) ids.push_back(Ids(text)[0]);
  EXPECT_EQ(TakeAll(choice, ids, engine::FinishReason::kNone), "ab");
  EXPECT_TRUE(choice.ended_early());
}

TEST_F(ChoiceTest, HeldBackTextIsReleasedAtTheEnd) {
  Choice choice = Make(ChatOf({"abcdef"}));
  EXPECT_EQ(TakeAll(choice, Ids("xabc"), engine::FinishReason::kLength), "xabc");
  EXPECT_FALSE(choice.ended_early());
}

TEST_F(ChoiceTest, AnUnfinishedCharacterAtTheEndIsReplaced) {
  std::vector<TokenId> ids = Ids("🎉");
  ASSERT_GT(ids.size(), 1u);
  ids.pop_back();
  Choice choice = Make({});
  EXPECT_EQ(TakeAll(choice, ids, engine::FinishReason::kLength), "\xef\xbf\xbd");
}

TEST_F(ChoiceTest, LogprobsAndTokensWaitForTheirText) {
  std::vector<TokenId> ids = Ids("🎉");
  ASSERT_GT(ids.size(), 1u);
  GenerationRequest request;
  request.sampling.logprobs = 0;
  request.return_token_ids = true;
  Choice choice = Make(request);
  ids.push_back(eos_);
  std::vector<TokenId> told;
  size_t logprobs = 0;
  for (const TokenId id : ids) {
    execution::TokenLogprobs logprob;
    logprob.chosen = {id, -0.5f};
    const ChoiceStep step =
        choice.Take({.tokens = {id},
                     .finish = id == eos_ ? engine::FinishReason::kStop : engine::FinishReason::kNone,
                     .error = {},
                     .logprobs = {logprob}});
    EXPECT_EQ(step.tokens.empty(), !step.says_something() && id != eos_);
    told.insert(told.end(), step.tokens.begin(), step.tokens.end());
    logprobs += step.logprobs.size();
  }
  EXPECT_EQ(told, ids);
  EXPECT_EQ(logprobs, ids.size() - 1) << "the token that ends the answer is not part of it";
  EXPECT_EQ(choice.MeanLogprob(), -0.5);
}

TEST_F(ChoiceTest, EchoBeginsWithThePrompt) {
  GenerationRequest request;
  request.echo = true;
  request.stop = {"ab"};  // searched in the answer, not in the prompt
  const std::vector<TokenId> prompt = Ids("ab ");
  Choice choice(request,
                {.tokenizer = *tokenizer_, .format = format_, .eos_token_ids = eos_ids_, .prompt = prompt});
  EXPECT_EQ(TakeAll(choice, Ids("c"), engine::FinishReason::kLength), "ab c");
  EXPECT_EQ(choice.completion_tokens(), 1);
}

TEST_F(ChoiceTest, AnAbortedAnswerHasItsOwnFinishReason) {
  Choice choice = Make(ChatOf());
  choice.Take({.tokens = Ids("a"), .error = {}});
  choice.Take({.finish = engine::FinishReason::kCancelled, .error = {}});
  EXPECT_EQ(choice.finish_reason(), "abort");
  EXPECT_EQ(choice.answer().content, "a");
}

}  // namespace
}  // namespace numoe::serving
