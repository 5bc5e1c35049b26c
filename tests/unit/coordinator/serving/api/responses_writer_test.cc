// OpenAI's response: what a client assembles from the stream equals the complete response, for any answer.
#include "coordinator/serving/api/responses_writer.h"

#include <map>

#include "gtest/gtest.h"
#include "tests/support/random_answer.h"
#include "tests/support/sse_events.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

const ResponsesFields& Fields() {
  static const ResponsesFields fields{.repeated = {{"store", true}}};
  return fields;
}

// Assembles a response as OpenAI's SDKs do, and checks the order of events.
class ResponseStream {
 public:
  // Returns the assembled output; `last` is the response of the last event.
  ordered_json Read(const std::vector<ordered_json>& events) {
    for (const ordered_json& event : events) Take(event);
    EXPECT_FALSE(last.is_null()) << "the last event is missing";
    return output_;
  }
  ordered_json last;

 private:
  void Take(const ordered_json& event) {
    const std::string type = event.at("type");
    EXPECT_EQ(event.at("sequence_number"), count_++) << event;
    EXPECT_TRUE(last.is_null()) << "after the last: " << event;
    if (type == "response.created" || type == "response.in_progress") {
      EXPECT_EQ(count_, type == "response.created" ? 1 : 2);
      EXPECT_EQ(event.at("response").at("status"), "in_progress");
    } else if (type == "response.completed" || type == "response.incomplete") {
      EXPECT_FALSE(open_);
      last = event.at("response");
    } else if (type == "response.output_item.added") {
      EXPECT_FALSE(open_) << event;
      open_ = true;
      EXPECT_EQ(event.at("output_index"), output_.size());
      EXPECT_EQ(event.at("item").at("status"), "in_progress");
      output_.push_back(event.at("item"));
    } else {
      EXPECT_TRUE(open_ && event.at("output_index") == output_.size() - 1) << event;
      InItem(type, event, output_.back());
    }
  }

  void InItem(const std::string& type, const ordered_json& event, ordered_json& item) {
    if (type == "response.output_item.done") {
      EXPECT_EQ(event.at("item").at("id"), item.at("id"));
      for (const char* field : {"content", "arguments", "name", "call_id"})
        EXPECT_EQ(event.at("item").value(field, ordered_json()), item.value(field, ordered_json()));
      item = event.at("item");
      open_ = false;
      return;
    }
    EXPECT_EQ(event.at("item_id"), item.at("id"));
    if (type == "response.content_part.added") {
      item["content"].push_back(event.at("part"));
    } else if (type == "response.content_part.done") {
      EXPECT_EQ(event.at("part"), item.at("content").at(0));
    } else if (type == "response.function_call_arguments.delta") {
      item["arguments"] = item["arguments"].get<std::string>() + event.at("delta").get<std::string>();
    } else if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(event.at("arguments"), item.at("arguments"));
    } else {
      const bool reasoning = item.at("type") == "reasoning";
      const std::string kind = reasoning ? "response.reasoning_text" : "response.output_text";
      ordered_json& text = item["content"].at(0)["text"];
      if (type == kind + ".delta") {
        text = text.get<std::string>() + event.at("delta").get<std::string>();
      } else {
        EXPECT_EQ(type, kind + ".done");
        EXPECT_EQ(event.at("text"), text);
      }
    }
  }

  ordered_json output_ = ordered_json::array();
  bool open_ = false;
  int count_ = 0;
};

class ResponsesWriterTest : public ::testing::TestWithParam<size_t> {};

TEST_P(ResponsesWriterTest, StreamsAddUpToWholeResponses) {
  std::mt19937 random(13);
  std::map<std::string, int> items, statuses;
  std::vector<ordered_json> kept;
  const auto write = [&](const GenerationRequest&, AnswerContext context) {
    return std::make_unique<ResponsesWriter>(
        std::move(context), Fields(), [&kept](const ordered_json& response) { kept.push_back(response); });
  };
  for (int run = 0; run < 1500; ++run) {
    kept.clear();
    const SaidTwice said = SayTwice(SaidFormats()[GetParam()], RandomRequest(random), write, random);
    const ordered_json whole = ordered_json::parse(said.whole);
    ResponseStream stream;
    ASSERT_EQ(stream.Read(ReadNamedEvents(said.stream)), whole.at("output")) << said.said;
    ASSERT_EQ(stream.last, whole);
    ASSERT_EQ(kept.size(), 2u);
    ASSERT_EQ(DumpJson(kept[0]), said.whole);
    ASSERT_EQ(DumpJson(kept[1]), said.whole);
    size_t calls = 0;
    for (const ordered_json& item : whole.at("output")) {
      ++items[item.at("type")];
      calls += item.at("type") == "function_call";
    }
    ASSERT_EQ(calls, said.answer.calls.size());
    ++statuses[whole.at("status")];
  }
  for (const char* type : {"message", "reasoning", "function_call"})
    EXPECT_GT(items[type], 100) << type << ": the random answers must contain what is tested";
  for (const char* status : {"completed", "incomplete"}) EXPECT_GT(statuses[status], 100) << status;
}

INSTANTIATE_TEST_SUITE_P(Formats, ResponsesWriterTest, ::testing::Range(size_t{0}, SaidFormats().size()),
                         [](const auto& format) { return SaidFormats()[format.param].name; });

class OneResponseTest : public ::testing::Test {
 protected:
  std::string Take(const engine::TokenEvent& event) {
    const ChoiceStep step = choices_[0]->Take(event);
    return writer_.Events(*choices_[0], step);
  }

  const ByteTokenizer tokenizer_{{"[EOS]"}};
  const text::OutputFormat format_{};
  const std::vector<TokenId> eos_ = {256}, prompt_ = {1, 2, 3};
  const GenerationRequest request_{};
  ordered_json kept_;
  ResponsesWriter writer_{
      {.tokenizer = tokenizer_, .id = "resp_1", .model = "m", .created = 0, .prompts = {prompt_}},
      Fields(),
      [this](const ordered_json& response) { kept_ = response; }};
  const Choices choices_ = [this] {
    Choices choices;
    choices.push_back(std::make_unique<Choice>(
        request_,
        ChoiceSetup{.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_}));
    return choices;
  }();
};

TEST_F(OneResponseTest, AnAbortedResponseIsCancelledWithItsText) {
  Take({.tokens = {'h', 'i'}, .cached_prompt_tokens = 2, .error = {}});
  EXPECT_TRUE(kept_.is_null()) << "kept when it is over";
  Take({.cached_prompt_tokens = 2, .finish = engine::FinishReason::kCancelled, .error = {}});
  const ordered_json whole = ordered_json::parse(writer_.Whole(choices_));
  EXPECT_EQ(whole.at("status"), "cancelled");
  EXPECT_EQ(whole.at("output"), ordered_json::parse(R"([{"id": "msg_1_0", "type": "message",
      "role": "assistant", "status": "incomplete", "content": [
      {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}]}])"));
  EXPECT_EQ(whole.at("usage"), ordered_json::parse(R"({"input_tokens": 3,
      "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0}, "output_tokens": 2,
      "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 5})"));
  EXPECT_EQ(kept_, whole);
}

TEST_F(OneResponseTest, AFailedStreamEndsWithTheError) {
  Take({.tokens = {'h', 'i'}, .error = {}});
  const auto events = ReadNamedEvents(writer_.Failure({.http_status = 503, .message = "gone"}));
  EXPECT_EQ(events.back().at("type"), "response.failed");
  EXPECT_EQ(events.back().at("response").at("error"),
            ordered_json({{"code", "server_error"}, {"message", "gone"}}));
  EXPECT_EQ(events.back().at("response").at("output").size(), 1u);
  EXPECT_EQ(kept_.at("status"), "failed");
}

}  // namespace
}  // namespace numoe::serving
