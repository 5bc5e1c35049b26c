// Token events to OpenAI's objects, with a real tokenizer: streamed text is the whole text, stop tokens and
// stop strings are no part of it, every event is one SSE frame.
#include "coordinator/http/generation.h"

#include <memory>

#include "gtest/gtest.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;

constexpr char kText[] = "Grüße, 世界 🎉";

// The JSON of one SSE event: "data: ", one line, an empty line.
ordered_json FromSse(const std::string& frame) {
  EXPECT_EQ(frame.rfind("data: ", 0), 0u) << frame;
  EXPECT_EQ(frame.find('\n'), frame.size() - 2) << "a line break inside the event ends it early: " << frame;
  EXPECT_EQ(frame.substr(frame.size() - 2), "\n\n");
  return ordered_json::parse(frame.substr(6));
}

std::vector<AnswerDelta> Content(const std::string& text) {
  if (text.empty()) return {};
  return {{.kind = AnswerDelta::Kind::kContent, .text = text}};
}

std::string Text(const std::vector<AnswerDelta>& deltas) {
  if (deltas.empty()) return "";
  EXPECT_EQ(deltas.size(), 1u) << "content alone is one delta";
  EXPECT_EQ(deltas[0].kind, AnswerDelta::Kind::kContent);
  return deltas[0].text;
}

class GenerationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::Load("tests/unit/coordinator/tokenizer/testdata/qwen3");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    eos_ = *tokenizer_->SpecialId("<|im_end|>");
    eos_ids_ = {eos_};
  }
  Generation Make(const CompletionRequest& request) const {
    return Generation(request, {.tokenizer = *tokenizer_,
                                .format = format_,
                                .eos_token_ids = eos_ids_,
                                .prompt = prompt_,
                                .id = "id-1",
                                .model = "m"});
  }
  std::vector<TokenId> Ids(const std::string& text) const {
    return tokenizer_->Encode(text, Specials::kAsText);
  }
  // One event for each token; the last one finishes.
  std::string TakeAll(Generation& generation, const std::vector<TokenId>& ids, FinishReason finish) const {
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      text += Text(generation.Take(
          {.tokens = {ids[i]}, .finish = i + 1 == ids.size() ? finish : FinishReason::kNone, .error = {}}));
    }
    return text;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  const OutputFormat format_;  // no marks: everything is content
  const std::vector<TokenId> prompt_ = {1, 2, 3, 4, 5};
  TokenId eos_ = 0;
  std::vector<TokenId> eos_ids_;
};

TEST_F(GenerationTest, TextComesInWholeCharactersAndAddsUp) {
  const std::vector<TokenId> ids = Ids(kText);
  ASSERT_GT(ids.size(), 8u) << "characters must be cut by tokens for this to say anything";
  Generation generation = Make({.chat = true});
  std::string text;
  for (const TokenId id : ids) {
    const std::vector<AnswerDelta> deltas = generation.Take({.tokens = {id}, .error = {}});
    const std::string piece = Text(deltas);
    if (piece.empty()) {
      EXPECT_EQ(generation.Events(deltas), "") << "an event that says nothing";
    } else {
      EXPECT_EQ(FromSse(generation.Events(deltas)).at("choices")[0].at("delta").value("content", ""), piece)
          << "half a character went out";
    }
    text += piece;
  }
  EXPECT_FALSE(generation.done());
  text += Text(generation.Take({.finish = FinishReason::kLength, .error = {}}));
  EXPECT_TRUE(generation.done());
  EXPECT_EQ(text, kText);
  const ordered_json answer = ordered_json::parse(generation.Answer());
  EXPECT_EQ(answer.at("choices")[0].at("message").at("content"), kText);
  EXPECT_EQ(answer.at("choices")[0].at("finish_reason"), "length");
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), ids.size());
}

TEST_F(GenerationTest, TheTokenThatEndsItIsCountedButNotText) {
  const TokenId own = Ids("!")[0];
  CompletionRequest request{.chat = true};
  request.sampling.stop_token_ids = {own};
  for (const TokenId last : {eos_, own}) {
    Generation generation = Make(request);
    std::vector<TokenId> ids = Ids("abc");
    ids.push_back(last);
    EXPECT_EQ(TakeAll(generation, ids, FinishReason::kStop), "abc");
    EXPECT_FALSE(generation.ended_early());
    EXPECT_EQ(generation.completion_tokens(), static_cast<int>(ids.size()));
    EXPECT_EQ(ordered_json::parse(generation.Answer()).at("choices")[0].at("finish_reason"), "stop");
  }
}

TEST_F(GenerationTest, AStopStringEndsItBeforeTheEngineDoes) {
  Generation generation = Make({.chat = true, .stop = {"界"}});
  const std::string text = TakeAll(generation, Ids(kText), FinishReason::kNone);
  EXPECT_EQ(text, "Grüße, 世");
  EXPECT_TRUE(generation.done() && generation.ended_early());
  EXPECT_EQ(Text(generation.Take({.tokens = Ids("x"), .finish = FinishReason::kLength, .error = {}})), "");
  EXPECT_EQ(FromSse(generation.Events({})).at("choices")[0].at("finish_reason"), "stop");
}

TEST_F(GenerationTest, WhatWasHeldBackGoesOutAtTheEnd) {
  Generation generation = Make({.chat = true, .stop = {"abcdef"}});
  EXPECT_EQ(TakeAll(generation, Ids("xabc"), FinishReason::kLength), "xabc");
  EXPECT_FALSE(generation.ended_early());
}

TEST_F(GenerationTest, AnUnfinishedCharacterAtTheEndIsReplaced) {
  std::vector<TokenId> ids = Ids("🎉");
  ASSERT_GT(ids.size(), 1u);
  ids.pop_back();
  Generation generation = Make({.chat = false});
  EXPECT_EQ(TakeAll(generation, ids, FinishReason::kLength), "\xef\xbf\xbd");
}

TEST_F(GenerationTest, TheFirstChunkOfAChatCarriesTheRole) {
  Generation generation = Make({.chat = true});
  const ordered_json first = FromSse(generation.Events(Content("a\nb")));
  EXPECT_EQ(first.at("id"), "id-1");
  EXPECT_EQ(first.at("object"), "chat.completion.chunk");
  EXPECT_EQ(first.at("model"), "m");
  EXPECT_EQ(first.at("choices")[0].at("delta"), ordered_json({{"role", "assistant"}, {"content", "a\nb"}}));
  EXPECT_TRUE(first.at("choices")[0].at("finish_reason").is_null());
  EXPECT_FALSE(first.contains("usage"));
  EXPECT_EQ(FromSse(generation.Events(Content("c"))).at("choices")[0].at("delta"),
            ordered_json({{"content", "c"}}));
  generation.Take({.finish = FinishReason::kLength, .error = {}});
  const ordered_json last = FromSse(generation.Events({}));
  EXPECT_EQ(last.at("choices")[0].at("delta"), ordered_json::object());
  EXPECT_EQ(last.at("choices")[0].at("finish_reason"), "length");
}

TEST_F(GenerationTest, CompletionsCarryTextAndUsageComesLastWhenAsked) {
  Generation generation = Make({.chat = false, .include_usage = true});
  EXPECT_TRUE(generation.wants_usage());
  const ordered_json chunk = FromSse(generation.Events(Content("t")));
  EXPECT_EQ(chunk.at("object"), "text_completion");
  EXPECT_EQ(chunk.at("choices")[0].at("text"), "t");
  EXPECT_TRUE(chunk.at("usage").is_null());
  TakeAll(generation, Ids("abc"), FinishReason::kLength);
  const ordered_json usage = FromSse(generation.UsageEvent());
  EXPECT_TRUE(usage.at("choices").empty());
  const int tokens = generation.completion_tokens();
  EXPECT_EQ(usage.at("usage"), ordered_json({{"prompt_tokens", 5},
                                             {"completion_tokens", tokens},
                                             {"total_tokens", 5 + tokens},
                                             {"prompt_tokens_details", {{"cached_tokens", 0}}}}));
  EXPECT_EQ(ordered_json::parse(generation.Answer()).at("choices")[0].at("text"), "abc");
}

}  // namespace
}  // namespace numoe
