// Anthropic's message: what a client assembles from the stream equals the complete message, for any answer.
#include "coordinator/serving/api/messages_writer.h"

#include "gtest/gtest.h"
#include "tests/support/random_answer.h"
#include "tests/support/sse_events.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::unique_ptr<AnswerWriter> WriteMessages(const GenerationRequest& request, AnswerContext context) {
  return std::make_unique<MessagesWriter>(request, std::move(context));
}

// Assembles a message as Anthropic's SDKs do, and checks the order of events.
class MessageStream {
 public:
  ordered_json Read(const std::vector<ordered_json>& events) {
    for (const ordered_json& event : events) Take(event);
    EXPECT_TRUE(over_) << "no message_stop";
    return message_;
  }

 private:
  void Take(const ordered_json& event) {
    const std::string type = event.at("type");
    EXPECT_FALSE(over_) << "after message_stop: " << event;
    EXPECT_EQ(message_.is_null(), type == "message_start") << event;
    if (type == "message_start") {
      message_ = event.at("message");
    } else if (type == "content_block_start") {
      EXPECT_FALSE(open_) << event;
      EXPECT_EQ(event.at("index"), message_["content"].size());
      open_ = true;
      arguments_.clear();
      message_["content"].push_back(event.at("content_block"));
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(open_ && event.at("index") == message_["content"].size() - 1) << event;
      AddDelta(event.at("delta"), message_["content"].back());
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(open_ && event.at("index") == message_["content"].size() - 1) << event;
      open_ = false;
      EndBlock(message_["content"].back());
    } else if (type == "message_delta") {
      EXPECT_FALSE(open_) << event;
      message_.update(event.at("delta"));
      message_["usage"].update(event.at("usage"));
    } else if (type == "message_stop") {
      over_ = true;
    } else {
      EXPECT_EQ(type, "ping");
    }
  }

  void AddDelta(const ordered_json& delta, ordered_json& block) {
    const std::string type = delta.at("type");
    const auto add = [&](const char* kind, const char* field) {
      EXPECT_EQ(block.at("type"), kind);
      EXPECT_FALSE(type != "signature_delta" && delta.at(field).get<std::string>().empty()) << delta;
      block[field] = block[field].get<std::string>() + delta.at(field).get<std::string>();
    };
    if (type == "text_delta") return add("text", "text");
    if (type == "thinking_delta") return add("thinking", "thinking");
    if (type == "signature_delta") return add("thinking", "signature");
    EXPECT_EQ(type, "input_json_delta");
    EXPECT_EQ(block.at("type"), "tool_use");
    arguments_ += delta.at("partial_json").get<std::string>();
  }

  void EndBlock(ordered_json& block) {
    if (block.at("type") != "tool_use" || arguments_.empty()) return;
    const ordered_json input = ordered_json::parse(arguments_, nullptr, false);
    block["input"] = input.is_object() ? input : ordered_json({{"INVALID_JSON", arguments_}});
  }

  ordered_json message_;
  std::string arguments_;
  bool open_ = false, over_ = false;
};

class MessagesWriterTest : public ::testing::TestWithParam<size_t> {};

TEST_P(MessagesWriterTest, StreamsAddUpToWholeMessages) {
  std::mt19937 random(11);
  std::map<std::string, int> blocks, reasons;
  for (int run = 0; run < 1500; ++run) {
    const SaidTwice said = SayTwice(SaidFormats()[GetParam()], RandomRequest(random), WriteMessages, random);
    const ordered_json whole = ordered_json::parse(said.whole);
    ASSERT_EQ(MessageStream().Read(ReadNamedEvents(said.stream)), whole) << said.said;
    std::string text;
    size_t calls = 0;
    for (const ordered_json& block : whole.at("content")) {
      ++blocks[block.at("type")];
      text += block.value("text", "");
      calls += block.at("type") == "tool_use";
    }
    ASSERT_EQ(text, ordered_json::parse(DumpJson(said.answer.content)).get<std::string>());
    ASSERT_EQ(calls, said.answer.calls.size());
    ++reasons[whole.at("stop_reason")];
  }
  for (const char* type : {"text", "thinking", "tool_use"})
    EXPECT_GT(blocks[type], 100) << type << ": the random answers must contain what is tested";
  for (const char* reason : {"end_turn", "max_tokens", "tool_use", "stop_sequence"})
    EXPECT_GT(reasons[reason], 20) << reason;
}

INSTANTIATE_TEST_SUITE_P(Formats, MessagesWriterTest, ::testing::Range(size_t{0}, SaidFormats().size()),
                         [](const auto& format) { return SaidFormats()[format.param].name; });

class OneMessageTest : public ::testing::Test {
 protected:
  std::string Take(const engine::TokenEvent& event) {
    Choice& choice = *choices_[0];
    const ChoiceStep step = choice.Take(event);
    return writer_.Events(choice, step);
  }
  engine::TokenEvent Said(const std::string& text,
                          engine::FinishReason finish = engine::FinishReason::kNone) const {
    return {.tokens = tokenizer_.Encode(text, text::Specials::kAsText),
            .cached_prompt_tokens = 2,
            .finish = finish,
            .error = {}};
  }

  const ByteTokenizer tokenizer_{{"[EOS]"}};
  const text::OutputFormat format_{};
  const std::vector<TokenId> eos_ = {256}, prompt_ = {1, 2, 3, 4, 5};
  const GenerationRequest request_{};
  MessagesWriter writer_{
      request_, {.tokenizer = tokenizer_, .id = "msg_1", .model = "m", .created = 0, .prompts = {prompt_}}};
  const Choices choices_ = [this] {
    Choices choices;
    choices.push_back(std::make_unique<Choice>(
        request_,
        ChoiceSetup{.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_}));
    return choices;
  }();
};

TEST_F(OneMessageTest, EventByEvent) {
  const auto first = ReadNamedEvents(Take(Said("ab")));
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[0].at("message"), ordered_json::parse(R"({"id": "msg_1", "type": "message",
      "role": "assistant", "model": "m", "content": [], "stop_reason": null, "stop_sequence": null,
      "usage": {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2,
                "output_tokens": 2}})"));
  EXPECT_EQ(first[1], ordered_json({{"type", "ping"}}));
  EXPECT_EQ(first[3].at("delta"), ordered_json({{"type", "text_delta"}, {"text", "ab"}}));
  EXPECT_EQ(Take({.finish = engine::FinishReason::kLength, .error = {}}), "") << "only End writes the reason";
  const auto last = ReadNamedEvents(writer_.End(choices_));
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[1].at("delta"), ordered_json({{"stop_reason", "max_tokens"}, {"stop_sequence", nullptr}}));
}

TEST_F(OneMessageTest, AnEmptyAnswerIsAMessage) {
  const std::string begin = Take({.tokens = {256}, .finish = engine::FinishReason::kStop, .error = {}});
  const ordered_json read = MessageStream().Read(ReadNamedEvents(begin + writer_.End(choices_)));
  EXPECT_EQ(read.at("content"), ordered_json::array());
  EXPECT_EQ(read.at("stop_reason"), "end_turn");
}

TEST_F(OneMessageTest, AFailedStreamEndsWithTheError) {
  Take(Said("ab"));
  const auto events = ReadNamedEvents(writer_.Failure({.http_status = 503, .message = "gone"}));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0], ordered_json::parse(
                           R"({"type": "error", "error": {"type": "overloaded_error", "message": "gone"}})"));
}

}  // namespace
}  // namespace numoe::serving
