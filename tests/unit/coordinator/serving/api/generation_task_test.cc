// A request from its body to its answer, with an engine that is controlled by the test.
#include "coordinator/serving/api/generation_task.h"

#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/openai_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/becomes.h"
#include "tests/unit/coordinator/serving/api/api_fixture.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

engine::TokenEvent Tokens(const std::string& text,
                          engine::FinishReason finish = engine::FinishReason::kNone) {
  return {.tokens = {text.begin(), text.end()}, .finish = finish, .error = {}};
}

class GenerationTaskTest : public ApiFixture {
 protected:
  // Clients that still wait go away: a task and its exchange hold each other until one of them ends.
  void TearDown() override {
    pool_.Stop();
    for (const auto& exchange : exchanges_) {
      if (!exchange->over) exchange->on_gone();
      exchange->Run();
      exchange->on_gone = nullptr;
    }
    engine_.running.clear();
  }

  std::shared_ptr<RecordedExchange> NewExchange(const std::string& body) {
    return exchanges_.emplace_back(std::make_shared<RecordedExchange>(body));
  }
  std::shared_ptr<RecordedExchange> Ask(const std::string& body, const std::string& id = "r1",
                                        net::Caller caller = {}) {
    const auto exchange = NewExchange(body);
    exchange->incoming().id = id;
    exchange->incoming().caller = std::move(caller);
    const size_t before = engine_.submitted.size();
    std::make_shared<GenerationTask>(deps, running_, exchange,
                                     Dialect{.read = ReadTextRequest, .write = Write, .id_prefix = "cmpl-"})
        ->Start(pool_);
    EXPECT_TRUE(Becomes([&] {
      exchange->Run();
      return exchange->over || engine_.submitted.size() > before;
    }));
    return exchange;
  }
  void Generate(const std::shared_ptr<RecordedExchange>& exchange, SequenceId sequence,
                engine::TokenEvent event) {
    engine_.Generate(sequence, std::move(event));
    exchange->Run();
  }
  static absl::StatusOr<std::unique_ptr<AnswerWriter>> Write(const GenerationRequest& request,
                                                             AnswerContext context) {
    return std::make_unique<TextWriter>(request, std::move(context));
  }
  static std::string Text(const RecordedExchange& exchange, size_t choice = 0) {
    return ordered_json::parse(exchange.reply.body).at("choices").at(choice).at("text");
  }

  RunningTasks running_;
  PreparationPool pool_{1};
  std::vector<std::shared_ptr<RecordedExchange>> exchanges_;
};

TEST_F(GenerationTaskTest, AWholeAnswerIsOneReply) {
  const auto exchange = Ask(R"({"prompt": "ab", "max_tokens": 4})");
  ASSERT_EQ(engine_.submitted.size(), 1u);
  EXPECT_EQ(engine_.submitted[0].prompt, (std::vector<TokenId>{'a', 'b'}));
  EXPECT_EQ(engine_.submitted[0].sampling.max_tokens, 4);
  EXPECT_EQ(engine_.submitted[0].request_id, "r1");
  Generate(exchange, 1, Tokens("he"));
  EXPECT_FALSE(exchange->over);
  Generate(exchange, 1, Tokens("y", engine::FinishReason::kLength));
  EXPECT_EQ(exchange->reply.status, 200);
  EXPECT_EQ(Text(*exchange), "hey");
  EXPECT_EQ(exchange->tokens, 3);
  EXPECT_TRUE(engine_.cancelled.empty());
}

TEST_F(GenerationTaskTest, AStreamSendsTextAsItIsGenerated) {
  const auto exchange = Ask(R"({"prompt": "ab", "stream": true})");
  EXPECT_FALSE(exchange->streaming) << "until the first text an error can still be a status";
  Generate(exchange, 1, Tokens("h"));
  EXPECT_TRUE(exchange->streaming);
  EXPECT_THAT(exchange->sent, HasSubstr("\"h\""));
  Generate(exchange, 1, Tokens("i", engine::FinishReason::kLength));
  EXPECT_TRUE(exchange->over);
  EXPECT_THAT(exchange->sent, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(GenerationTaskTest, FurtherChoicesWaitForTheFirstOnesTokensAndHaveTheirOwnSeeds) {
  const auto exchange = Ask(R"({"prompt": ["a", "b"], "n": 2, "seed": 10})");
  EXPECT_EQ(engine_.submitted.size(), 2u) << "the first choice of each prompt";
  Generate(exchange, 1, Tokens("x"));
  ASSERT_EQ(engine_.submitted.size(), 3u);
  EXPECT_EQ(engine_.submitted[2].prompt, std::vector<TokenId>{'a'});
  EXPECT_EQ(engine_.submitted[0].sampling.seed, 10u);
  EXPECT_EQ(engine_.submitted[2].sampling.seed, 11u);
  Generate(exchange, 2, Tokens("y", engine::FinishReason::kLength));
  Generate(exchange, 1, Tokens("", engine::FinishReason::kLength));
  Generate(exchange, 3, Tokens("z", engine::FinishReason::kLength));
  EXPECT_FALSE(exchange->over);
  Generate(exchange, 4, Tokens("w", engine::FinishReason::kLength));
  EXPECT_EQ(Text(*exchange, 0) + Text(*exchange, 1) + Text(*exchange, 2) + Text(*exchange, 3), "xzyw");
}

TEST_F(GenerationTaskTest, TheLikeliestAnswersAreReturned) {
  const auto exchange = Ask(R"({"prompt": "a", "n": 1, "best_of": 2})");
  EXPECT_EQ(engine_.submitted.at(0).sampling.logprobs, 0) << "needed to compare the answers";
  const auto likely = [](const std::string& text, float logprob) {
    engine::TokenEvent event = Tokens(text, engine::FinishReason::kLength);
    event.logprobs.resize(1);
    event.logprobs[0].chosen = {event.tokens[0], logprob};
    return event;
  };
  Generate(exchange, 1, likely("x", -2));
  Generate(exchange, 2, likely("y", -1));
  EXPECT_EQ(Text(*exchange), "y");
  EXPECT_EQ(ordered_json::parse(exchange->reply.body).at("choices").size(), 1u);
}

TEST_F(GenerationTaskTest, AStopStringEndsTheSequence) {
  const auto exchange = Ask(R"({"prompt": "a", "stop": "!"})");
  Generate(exchange, 1, Tokens("hi!"));
  EXPECT_EQ(Text(*exchange), "hi");
  EXPECT_THAT(engine_.cancelled, ElementsAre(1));
}

TEST_F(GenerationTaskTest, AnErrorOfOneSequenceEndsTheRequest) {
  const auto exchange = Ask(R"({"prompt": ["a", "b"]})");
  Generate(exchange, 1,
           {.finish = engine::FinishReason::kError, .error = absl::DeadlineExceededError("too late")});
  EXPECT_EQ(exchange->error.http_status, 504);
  EXPECT_THAT(engine_.cancelled, ElementsAre(2)) << "no client needs the other one";
  const auto stream = Ask(R"({"prompt": "a", "stream": true})", "r2");
  Generate(stream, 3, Tokens("h"));
  Generate(stream, 3, {.finish = engine::FinishReason::kError, .error = absl::UnavailableError("lost")});
  EXPECT_EQ(stream->error.http_status, 0) << "the head of the stream was sent already";
  EXPECT_THAT(stream->sent, HasSubstr("lost"));
  EXPECT_TRUE(stream->over);
}

TEST_F(GenerationTaskTest, AtItsDeadlineAnAnswerHasTheTextSoFar) {
  const engine::TokenEvent late = {.finish = engine::FinishReason::kError,
                                   .error = absl::DeadlineExceededError("too late")};
  const auto whole = Ask(R"({"prompt": ["a", "b"], "timeout": 5})");
  Generate(whole, 1, Tokens("he"));
  Generate(whole, 2, late);
  EXPECT_FALSE(whole->over);
  Generate(whole, 1, late);
  EXPECT_EQ(whole->reply.status, 200);
  const ordered_json answer = ordered_json::parse(whole->reply.body);
  EXPECT_EQ(answer["choices"][0]["text"], "he");
  EXPECT_EQ(answer["choices"][1]["text"], "") << "the other one had not begun";
  for (const ordered_json& choice : answer["choices"]) {
    EXPECT_EQ(choice["finish_reason"], "length");
    EXPECT_EQ(choice["stop_reason"], "timeout");
  }
  EXPECT_EQ(answer["usage"]["completion_tokens"], 2);
  const auto stream =
      Ask(R"({"prompt": "a", "stream": true, "stream_options": {"include_usage": true}})", "r2");
  Generate(stream, 3, Tokens("h"));
  Generate(stream, 3, late);
  EXPECT_THAT(stream->sent, HasSubstr(R"("finish_reason":"length","stop_reason":"timeout")"));
  EXPECT_THAT(stream->sent, HasSubstr(R"("completion_tokens":1)"));
  EXPECT_THAT(stream->sent, ::testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(engine_.cancelled.empty());
  const auto nothing = Ask(R"({"prompt": "a"})", "r3");
  Generate(nothing, 4, late);
  EXPECT_EQ(nothing->error.http_status, 504);
}

TEST_F(GenerationTaskTest, AnAnswerHasTheModelNameOfItsRequest) {
  deps.model_names = {"m", "second"};
  for (const auto& [asked, named] : {std::pair{R"("model": "second", )", "second"}, {"", "m"}}) {
    const auto exchange = Ask("{" + std::string(asked) + R"("prompt": "a"})", named);
    Generate(exchange, engine_.submitted.size(), Tokens("x", engine::FinishReason::kLength));
    EXPECT_EQ(ordered_json::parse(exchange->reply.body)["model"], named);
    EXPECT_EQ(ordered_json::parse(exchange->reply.body)["system_fingerprint"], "fp_1");
  }
  EXPECT_EQ(Ask(R"({"model": "third", "prompt": "a"})", "r9")->error.message,
            "no such model: third; this server has m, second");
}

TEST_F(GenerationTaskTest, AnAnswerNamesTheFieldsThatWereIgnored) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"X-NUMoE-Ignored-Fields", "temprature, verbosity"}};
  const std::string fields = R"("prompt": "a", "temprature": 0, "verbosity": "low", "user": "u")";
  const auto whole = Ask("{" + fields + "}");
  Generate(whole, 1, Tokens("x", engine::FinishReason::kLength));
  EXPECT_EQ(whole->reply.headers, expected);
  const auto stream = Ask("{" + fields + R"(, "stream": true})", "r2");
  Generate(stream, 2, Tokens("x", engine::FinishReason::kLength));
  EXPECT_THAT(stream->head.headers, ::testing::Contains(expected[0]));
  EXPECT_THAT(stream->head.type, HasSubstr("text/event-stream"));
  const auto plain = Ask(R"({"prompt": "a"})", "r3");
  Generate(plain, 3, Tokens("x", engine::FinishReason::kLength));
  EXPECT_TRUE(plain->reply.headers.empty());
}

TEST_F(GenerationTaskTest, AParameterThatTheEngineRefusesIsNamed) {
  engine_.refusal = absl::InvalidArgumentError("top_p: expected less");
  EXPECT_EQ(Ask(R"({"prompt": "a"})")->error.param, "top_p");
  engine_.refusal = absl::InvalidArgumentError("does not fit");
  const auto longer = Ask(R"({"prompt": "a"})", "r2");
  EXPECT_EQ(longer->error.code, "context_length_exceeded");
  EXPECT_EQ(longer->error.param, "prompt");
  EXPECT_THAT(longer->error.message, HasSubstr("(1 in the prompt, 16 in the completion)"));
  EXPECT_EQ(Ask("{", "r3")->error.http_status, 400);
}

TEST_F(GenerationTaskTest, AFullOrDrainingServerRefusesBeforeAnyWork) {
  engine_.has_room = false;
  EXPECT_EQ(Ask("no JSON at all")->error.http_status, 429);
  deps.health = [] { return HealthReport{"draining", ""}; };
  const auto draining = Ask("no JSON at all");
  EXPECT_EQ(draining->error.http_status, 503);
  EXPECT_EQ(draining->error.code, "draining");
  EXPECT_EQ(running_.size(), 0);
}

TEST_F(GenerationTaskTest, AClientThatGoesCancelsAllSequences) {
  const auto exchange = Ask(R"({"prompt": ["a", "b"]})");
  exchange->on_gone();
  EXPECT_THAT(engine_.cancelled, ElementsAre(1, 2));
  Generate(exchange, 1, Tokens("x", engine::FinishReason::kLength));
  EXPECT_FALSE(exchange->over) << "there is no client any more";
}

TEST_F(GenerationTaskTest, AnAbortedRequestIsAnsweredWithTheTextSoFar) {
  const auto exchange = Ask(R"({"prompt": "a"})", "r1", {.tenant = 1});
  Generate(exchange, 1, Tokens("ha"));
  EXPECT_TRUE(running_.Find("r1", {.tenant = 2}).empty()) << "it belongs to another key";
  EXPECT_EQ(running_.Find("r1", {.tenant = 2, .admin = true}).size(), 1u);
  EXPECT_TRUE(running_.Find("r7", {.tenant = 1}).empty());
  const auto found = running_.Find("", {.tenant = 1});
  ASSERT_EQ(found.size(), 1u) << "one task, even if it has several ids";
  found[0]->Abort();
  exchange->Run();
  EXPECT_EQ(Text(*exchange), "ha");
  EXPECT_EQ(ordered_json::parse(exchange->reply.body).at("choices")[0].at("finish_reason"), "abort");
  EXPECT_THAT(engine_.cancelled, ElementsAre(1));
}

struct NarrowSlot final : net::ConcurrencySlot {
  bool Widen(int sequences) override { return sequences <= 2; }
};

TEST_F(GenerationTaskTest, AKeysLimitCountsSequences) {
  for (const auto& [body, status] :
       {std::pair(R"({"prompt": "a", "n": 2})", 0), std::pair(R"({"prompt": "a", "n": 3})", 429)}) {
    const auto exchange = NewExchange(body);
    exchange->slot = std::make_shared<NarrowSlot>();
    const size_t before = engine_.submitted.size();
    std::make_shared<GenerationTask>(deps, running_, exchange,
                                     Dialect{.read = ReadTextRequest, .write = Write, .id_prefix = "cmpl-"})
        ->Start(pool_);
    EXPECT_TRUE(Becomes([&] {
      exchange->Run();
      return exchange->over || engine_.submitted.size() > before;
    }));
    EXPECT_EQ(exchange->error.http_status, status) << body;
  }
}

TEST(NewAnswerIdTest, PrefixAnd32RandomDigits) {
  const std::string id = NewAnswerId("cmpl-");
  EXPECT_EQ(id.size(), 5u + 32);
  EXPECT_EQ(id.substr(0, 5), "cmpl-");
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef", 5), std::string::npos);
  EXPECT_NE(id, NewAnswerId("cmpl-"));
}

}  // namespace
}  // namespace numoe::serving
