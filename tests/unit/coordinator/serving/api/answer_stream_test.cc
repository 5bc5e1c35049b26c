// Random answers of every format, valid and invalid: the JSON that a client reads from the stream equals the
// JSON of the complete answer, however the tokens are divided into events.
#include <cstring>
#include <random>

#include "coordinator/serving/api/openai_writer.h"
#include "gtest/gtest.h"
#include "tests/support/chat_stream.h"
#include "tests/support/random_answer.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::unique_ptr<AnswerWriter> Write(const GenerationRequest& request, AnswerContext context) {
  return std::make_unique<ChatWriter>(request, std::move(context));
}

class AnswerStreamTest : public ::testing::TestWithParam<size_t> {
 protected:
  static ordered_json Fields(const ordered_json& message) {
    ordered_json out = ordered_json::object();
    for (const char* field : {"reasoning_content", "reasoning", "tool_calls"})
      out[field] = message.value(field, ordered_json());
    const auto content = message.find("content");
    out["content"] = content == message.end() || content->is_null() ? ordered_json("") : *content;
    return out;
  }
};

TEST_P(AnswerStreamTest, StreamsAddUpToWholeAnswers) {
  std::mt19937 random(7);
  size_t calls = 0, reasoning = 0, contents = 0;
  for (int run = 0; run < 1500; ++run) {
    SaidTwice answer = SayTwice(SaidFormats()[GetParam()], RandomRequest(random), Write, random);
    answer.stream.resize(answer.stream.size() - std::strlen(kSseDone));
    const ordered_json choice = ordered_json::parse(answer.whole).at("choices")[0];
    const ChatStream stream = ReadChatStream(answer.stream);
    ASSERT_EQ(Fields(stream.message), Fields(choice.at("message"))) << answer.said;
    ASSERT_EQ(stream.finish_reason, choice.at("finish_reason"));
    calls += choice.at("message").value("tool_calls", ordered_json::array()).size();
    reasoning += choice.at("message").contains("reasoning");
    contents += !Fields(stream.message)["content"].get<std::string>().empty();
  }
  EXPECT_GT(calls, 100u) << "the random answers must contain what is tested";
  EXPECT_GT(reasoning, 100u);
  EXPECT_GT(contents, 300u);
}

INSTANTIATE_TEST_SUITE_P(Formats, AnswerStreamTest, ::testing::Range(size_t{0}, SaidFormats().size()),
                         [](const auto& format) { return SaidFormats()[format.param].name; });

}  // namespace
}  // namespace numoe::serving
