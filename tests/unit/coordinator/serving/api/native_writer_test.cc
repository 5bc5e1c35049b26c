// SGLang's answers: each event contains all of the text so far, and the last one is the complete answer.
#include "coordinator/serving/api/native_writer.h"

#include "gtest/gtest.h"
#include "tests/support/random_answer.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> FromSse(std::string_view text) {
  std::vector<ordered_json> events;
  while (!text.empty() && text != kSseDone) {
    const size_t end = text.find("\n\n");
    EXPECT_EQ(text.substr(0, 6), "data: ");
    events.push_back(ordered_json::parse(text.substr(6, end - 6)));
    text.remove_prefix(end + 2);
  }
  EXPECT_EQ(text, kSseDone);
  return events;
}

TEST(NativeWriterTest, TheLastEventIsTheWholeAnswer) {
  std::mt19937 random(17);
  std::map<std::string, int> reasons;
  const auto write = [](const GenerationRequest& request, AnswerContext context) {
    return std::make_unique<NativeWriter>(request, std::move(context));
  };
  for (int run = 0; run < 1500; ++run) {
    GenerationRequest request;
    request.return_token_ids = true;
    if (random() % 3 == 0) request.stop = {"END", "lo "};
    const SaidTwice said = SayTwice(SaidFormats()[run % SaidFormats().size()], request, write, random);
    ordered_json whole = ordered_json::parse(said.whole);
    std::vector<ordered_json> events = FromSse(said.stream);
    ASSERT_FALSE(events.empty());
    std::string before;
    for (ordered_json& event : events) {
      const std::string text = event.at("text");
      // A part of a character at the end of an event is shown as the replacement character until the rest
      // arrives.
      ASSERT_GE(text.size(), before.size());
      ASSERT_EQ(event.at("meta_info").at("finish_reason").is_null(), &event != &events.back());
      event["meta_info"].erase("e2e_latency");
      before = text;
    }
    EXPECT_GE(whole["meta_info"]["e2e_latency"], 0.0);
    whole["meta_info"].erase("e2e_latency");
    ASSERT_EQ(events.back(), whole) << said.said;
    ++reasons[whole["meta_info"]["finish_reason"]["type"]];
  }
  EXPECT_GT(reasons["stop"], 100);
  EXPECT_GT(reasons["length"], 100);
}

class NativeAnswersTest : public ::testing::Test {
 protected:
  ordered_json Whole(const GenerationRequest& request, const engine::TokenEvent& event, int answers = 1) {
    Choices choices;
    for (int i = 0; i < answers; ++i) {
      choices.push_back(std::make_unique<Choice>(request, ChoiceSetup{.tokenizer = tokenizer_,
                                                                      .format = format_,
                                                                      .eos_token_ids = eos_,
                                                                      .prompt = prompt_,
                                                                      .index = i}));
      choices.back()->Take(event);
    }
    NativeWriter writer(
        request, {.tokenizer = tokenizer_, .id = "r", .model = "m", .created = 0, .prompts = {prompt_}});
    return ordered_json::parse(writer.Whole(choices));
  }
  static GenerationRequest WithIds() {
    GenerationRequest request;
    request.return_token_ids = true;
    return request;
  }

  const ByteTokenizer tokenizer_{{"[EOS]"}};
  const text::OutputFormat format_{};
  const std::vector<TokenId> eos_ = {256}, prompt_ = {'a', 'b', 'c'};
};

TEST_F(NativeAnswersTest, TheMatchedStopIsATokenOrAText) {
  const ordered_json end = Whole(
      WithIds(),
      {.tokens = {'x', 256}, .cached_prompt_tokens = 2, .finish = engine::FinishReason::kStop, .error = {}});
  EXPECT_EQ(end.at("text"), "x");
  EXPECT_EQ(end.at("output_ids"), ordered_json({'x', 256}));
  EXPECT_EQ(end.at("meta_info").at("finish_reason"), ordered_json({{"type", "stop"}, {"matched", 256}}));
  EXPECT_EQ(end.at("meta_info").at("prompt_tokens"), 3);
  EXPECT_EQ(end.at("meta_info").at("completion_tokens"), 2);
  EXPECT_EQ(end.at("meta_info").at("cached_tokens"), 2);
  EXPECT_FALSE(end.at("meta_info").contains("output_token_logprobs"));
  GenerationRequest stops = WithIds();
  stops.stop = {"x"};
  EXPECT_EQ(Whole(stops, {.tokens = {'x'}, .error = {}}).at("meta_info").at("finish_reason"),
            ordered_json({{"type", "stop"}, {"matched", "x"}}));
  EXPECT_EQ(Whole(WithIds(), {.finish = engine::FinishReason::kCancelled, .error = {}})
                .at("meta_info")
                .at("finish_reason")
                .at("type"),
            "abort");
}

TEST_F(NativeAnswersTest, AListIsAnsweredWithAList) {
  GenerationRequest list = WithIds();
  list.list_answer = true;
  const engine::TokenEvent event{.tokens = {'x'}, .finish = engine::FinishReason::kLength, .error = {}};
  EXPECT_EQ(Whole(list, event).size(), 1u);
  EXPECT_TRUE(Whole(list, event).is_array());
  GenerationRequest two = WithIds();
  two.n = 2;
  EXPECT_EQ(Whole(two, event, 2).size(), 2u);
}

TEST_F(NativeAnswersTest, LogprobsBeginWhereTheRequestSays) {
  GenerationRequest request = WithIds();
  request.sampling.logprobs = request.sampling.prompt_logprobs = 1;
  request.logprob_start = 0;
  const auto logprob = [](TokenId token, float value) {
    return execution::TokenLogprobs{.chosen = {token, value}, .top = {{token, value}}};
  };
  const engine::TokenEvent event{.tokens = {'x'},
                                 .finish = engine::FinishReason::kLength,
                                 .error = {},
                                 .logprobs = {logprob('x', -0.5f)},
                                 .prompt_logprobs = {logprob('b', -1.0f), logprob('c', -2.0f)}};
  const ordered_json all = Whole(request, event).at("meta_info");
  EXPECT_EQ(all.at("output_token_logprobs"), ordered_json::parse("[[-0.5, 120, null]]"));
  EXPECT_EQ(all.at("output_top_logprobs"), ordered_json::parse("[[[-0.5, 120, null]]]"));
  EXPECT_EQ(all.at("input_token_logprobs"),
            ordered_json::parse("[[null, 97, null], [-1.0, 98, null], [-2.0, 99, null]]"));
  EXPECT_EQ(all.at("input_top_logprobs").size(), 3u);
  request.logprob_start = 2;
  EXPECT_EQ(Whole(request, event).at("meta_info").at("input_token_logprobs"),
            ordered_json::parse("[[-2.0, 99, null]]"));
}

}  // namespace
}  // namespace numoe::serving
