// Kimi's answers from tokens to JSON, complete and streamed with every division into events: the known ways
// in which tool calls go wrong in practice, one test for each. Their numbers are those of
// coordinator/text/parsing/CONTRACT.md.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>

#include "coordinator/text/chat/chat_template.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/chat_stream.h"
#include "tests/support/one_answer.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "search", "parameters": {"type": "object",
    "properties": {"query": {"type": "string"}}, "required": ["query"]}}}])";

std::string Call(const std::string& id, const std::string& arguments) {
  return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + arguments + "<|tool_call_end|>";
}
std::string Section(const std::string& calls) {
  return "<|tool_calls_section_begin|>" + calls + "<|tool_calls_section_end|>";
}

struct Reply {
  ordered_json message;
  std::string finish_reason;
  int reasoning_tokens = 0;

  std::string content() const {
    return message["content"].is_null() ? "(null)" : std::string(message["content"]);
  }
  std::string reasoning() const { return message.value("reasoning_content", "(none)"); }
  size_t calls() const { return message.contains("tool_calls") ? message["tool_calls"].size() : 0; }
  std::string id(size_t i) const { return message["tool_calls"][i]["id"]; }
  std::string name(size_t i) const { return message["tool_calls"][i]["function"]["name"]; }
  std::string arguments(size_t i) const { return message["tool_calls"][i]["function"]["arguments"]; }
};

class KimiAnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto format = text::ChooseOutputFormat(tokenizer_, "auto", "auto");
    ASSERT_TRUE(format.ok()) << format.status();
    ASSERT_EQ(format->tools, text::ToolSyntax::kKimi);
    format_ = *format;
    request_.conversation.emplace();
    request_.conversation->tools = ordered_json::parse(kTools);
    request_.conversation->messages = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
  }

  std::vector<TokenId> Ids(const std::string& text) const {
    return tokenizer_.Encode(text, text::Specials::kParse);
  }

  // The answer to `said`, which must be the same complete and as a stream, however its tokens are divided
  // into events.
  Reply Answer(const std::string& said, engine::FinishReason finish = engine::FinishReason::kStop) const {
    std::vector<TokenId> ids = Ids(said);
    if (finish == engine::FinishReason::kStop) ids.push_back(eos_[0]);
    Reply reply;
    std::mt19937 random(1);
    for (const size_t longest : {size_t{1}, size_t{2}, size_t{7}, ids.size() + 1}) {
      OneAnswer answer(
          request_, {.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_});
      for (size_t at = 0; at < ids.size() && !answer.done();) {
        const size_t length = std::min(ids.size() - at, 1 + random() % longest);
        engine::TokenEvent event{.tokens = {ids.begin() + at, ids.begin() + at + length}, .error = {}};
        at += length;
        if (at == ids.size()) event.finish = finish;
        answer.Take(event);
      }
      EXPECT_TRUE(answer.done());
      Check(answer.Whole(), answer.events, longest == 1 ? nullptr : &reply, reply);
    }
    return reply;
  }

  const ByteTokenizer tokenizer_{KimiControlTokens()};
  const std::vector<TokenId> eos_ = {*tokenizer_.SpecialId("<|im_end|>")};
  text::OutputFormat format_;
  GenerationRequest request_;
  std::vector<TokenId> prompt_ = {*tokenizer_.SpecialId("<|im_middle|>")};

 private:
  static void Check(const std::string& whole, const std::string& events, const Reply* earlier, Reply& reply) {
    const ordered_json answer = ordered_json::parse(whole);
    const ordered_json& choice = answer.at("choices")[0];
    const ChatStream stream = ReadChatStream(events);
    EXPECT_EQ(stream.finish_reason, choice.at("finish_reason")) << events;
    for (const char* field : {"reasoning_content", "reasoning", "tool_calls"}) {
      EXPECT_EQ(stream.message.value(field, ordered_json()),
                choice.at("message").value(field, ordered_json()));
    }
    const ordered_json& content = choice.at("message").at("content");
    EXPECT_EQ(stream.message.value("content", ""), content.is_null() ? "" : std::string(content));
    if (earlier != nullptr) {
      EXPECT_EQ(earlier->message, choice.at("message")) << "the division into events changed the answer";
    }
    reply.message = choice.at("message");
    reply.finish_reason = choice.at("finish_reason");
    reply.reasoning_tokens = answer.at("usage").at("completion_tokens_details").at("reasoning_tokens");
  }
};

constexpr char kParis[] = R"({"city": "Paris"})";

TEST_F(KimiAnswersTest, ReasoningContentAndCallsAreSeparated) {
  const Reply reply = Answer(
      "<think>Weather, so ask.</think>Let me look." +
      Section(Call("functions.get_weather:0", kParis) + Call("functions.search:1", R"({"query": "Paris"})")));
  EXPECT_EQ(reply.reasoning(), "Weather, so ask.");
  EXPECT_EQ(reply.reasoning_tokens, 16);
  EXPECT_EQ(reply.content(), "Let me look.");
  ASSERT_EQ(reply.calls(), 2u);
  EXPECT_EQ(reply.id(0), "functions.get_weather:0");
  EXPECT_EQ(reply.name(0), "get_weather");
  EXPECT_EQ(reply.arguments(0), kParis);
  EXPECT_EQ(reply.id(1), "functions.search:1");
  EXPECT_EQ(reply.finish_reason, "tool_calls");
  EXPECT_EQ(reply.message["tool_calls"][1]["type"], "function");
}

TEST_F(KimiAnswersTest, PlainAnswers) {
  const Reply reply = Answer("Grüße, 世界 🎉\n\n");
  EXPECT_EQ(reply.content(), "Grüße, 世界 🎉\n\n");
  EXPECT_EQ(reply.reasoning(), "(none)");
  EXPECT_EQ(reply.finish_reason, "stop");
  EXPECT_FALSE(reply.message.contains("tool_calls"));
}

// 1 and 2: marks divided over several deltas, and several marks in one. Answer() divides every case of this
// file in these ways; this test writes a mark in ordinary tokens, which is text.
TEST_F(KimiAnswersTest, Case1And2AMarkInOrdinaryTokensIsText) {
  std::string text = "Say <|tool_call_begin|> and </think>.";
  std::vector<TokenId> ids = tokenizer_.Encode(text, text::Specials::kAsText);
  OneAnswer answer(request_,
                   {.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_});
  answer.Take({.tokens = ids, .finish = engine::FinishReason::kLength, .error = {}});
  EXPECT_EQ(ReadChatStream(answer.events).message["content"], text);
}

TEST_F(KimiAnswersTest, Case3NewLinesInsideIdAndJson) {
  const Reply reply =
      Answer(Section(Call("\nfunctions.get_weather\n:0 \n", "\n{\n  \"city\":\n\"Paris\\n\"\n}\n")));
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.name(0), "get_weather");
  EXPECT_EQ(reply.arguments(0), "{\n  \"city\":\n\"Paris\\n\"\n}");
}

TEST_F(KimiAnswersTest, Case4TextBetweenSectionAndCallsIsDropped) {
  const Reply reply = Answer("A<|tool_calls_section_begin|>so:\n" + Call("functions.search:0", "{}") +
                             " and " + Call("functions.search:1", "{}") + "\n<|tool_calls_section_end|>");
  EXPECT_EQ(reply.content(), "A");
  EXPECT_EQ(reply.calls(), 2u);
}

TEST_F(KimiAnswersTest, Case5ContentBeforeTheSectionStays) {
  const Reply reply = Answer("I'll look <b>that</b> up:\n\n" + Section(Call("functions.search:0", "{}")));
  EXPECT_EQ(reply.content(), "I'll look <b>that</b> up:")
      << "white space next to a mark belongs to the format";
  EXPECT_EQ(Answer("  \n" + Section(Call("functions.search:0", "{}"))).content(), "(null)");
}

// 6 and 18: vLLM cut arguments at 8 KB, and failed at 30,000 characters.
TEST_F(KimiAnswersTest, Case6And18LongArguments) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("line {}\\n", i);
  const std::string arguments = R"({"query": ")" + text + "\"}";
  ASSERT_GT(arguments.size(), 40'000u);
  const Reply reply = Answer(Section(Call("functions.search:0", arguments)));
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_TRUE(reply.arguments(0) == arguments);
}

TEST_F(KimiAnswersTest, Case7TheAnswerEndsBeforeItsMarks) {
  const std::string open = "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0";
  const std::string begun = open + "<|tool_call_argument_begin|>";
  Reply reply = Answer(begun + R"({"query": "x"})");
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.arguments(0), R"({"query": "x"})");
  EXPECT_EQ(reply.finish_reason, "tool_calls");
  reply = Answer(begun + R"({"query": "x"}<|tool_call_end|>)");
  EXPECT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.finish_reason, "tool_calls");
  for (const std::string& nothing_yet : {open, begun, std::string("<|tool_calls_section_begin|>")}) {
    reply = Answer(nothing_yet);
    EXPECT_EQ(reply.calls(), 0u) << nothing_yet;
    EXPECT_EQ(reply.content(), "");
    EXPECT_EQ(reply.finish_reason, "stop");
  }
}

// The client answers that there is no such tool, and the model corrects itself. As content, the call would
// end the client's loop with useless text.
TEST_F(KimiAnswersTest, Case8AToolThatWasNotDeclaredIsCalledUnderItsName) {
  const Reply reply = Answer(Section(Call("functions.web_search:0", "{}")));
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.name(0), "web_search");
}

TEST_F(KimiAnswersTest, Case9ASectionInsideTheReasoningEndsIt) {
  const std::string calls = Section(Call("functions.get_weather:0", kParis));
  for (const char* after : {"", "</think>", "\n</think>\n\n"}) {
    const Reply reply = Answer("<think>I should look.\n" + calls + after);
    EXPECT_EQ(reply.reasoning(), "I should look.");
    EXPECT_EQ(reply.content(), "(null)");
    ASSERT_EQ(reply.calls(), 1u);
    EXPECT_EQ(reply.finish_reason, "tool_calls");
  }
  EXPECT_EQ(Answer("<think>a" + calls + "b</think>c").content(), "bc");
}

TEST_F(KimiAnswersTest, Case10NamesWithDotsAndDashes) {
  const Reply reply = Answer(Section(Call("functions.mcp.github-list_issues:0", "{}") +
                                     Call("functions.functions.x:1", "{}") + Call("a-b.c:2", "{}")));
  ASSERT_EQ(reply.calls(), 3u);
  EXPECT_EQ(reply.name(0), "mcp.github-list_issues");
  EXPECT_EQ(reply.name(1), "functions.x");
  EXPECT_EQ(reply.name(2), "a-b.c");
  EXPECT_EQ(reply.id(2), "functions.a-b.c:2");
}

TEST_F(KimiAnswersTest, Case11WhiteSpaceAfterTheSectionIsDropped) {
  const std::string calls = Section(Call("functions.search:0", "{}"));
  EXPECT_EQ(Answer(calls + "\n\n  ").content(), "(null)");
  EXPECT_EQ(Answer(calls + "\n\nDone. ").content(), "Done. ");
}

TEST_F(KimiAnswersTest, Case12NumbersContinueOverTheConversation) {
  request_.conversation->messages = ordered_json::parse(R"([
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "functions.search:0", "type": "function", "function": {"name": "search", "arguments": {}}},
      {"id": "call_abc", "type": "function", "function": {"name": "search", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "functions.search:0", "content": "1"},
    {"role": "tool", "tool_call_id": "call_abc", "content": "2"}])");
  const Reply reply = Answer(Section(Call("functions.search:0", "{}") + Call("functions.search:0", "{}")));
  ASSERT_EQ(reply.calls(), 2u);
  EXPECT_EQ(reply.id(0), "functions.search:2") << "the number that the model wrote is replaced";
  EXPECT_EQ(reply.id(1), "functions.search:3");
}

TEST_F(KimiAnswersTest, Case13SingularSectionMarksAreRead) {
  const Reply reply = Answer("Look:<|tool_call_section_begin|> x" + Call("functions.search:0", "{}") +
                             "<|tool_call_section_end|>Done <|tool_call_sec.");
  EXPECT_EQ(reply.content(), "Look:Done <|tool_call_sec.");
  EXPECT_EQ(reply.calls(), 1u);
  EXPECT_EQ(Answer("a<|tool_call_section_").content(), "a<|tool_call_section_")
      << "an incomplete mark at the end";
}

TEST_F(KimiAnswersTest, Case14ArgumentsThatAreNotJsonArePassedOn) {
  const Reply reply = Answer(Section(Call("functions.search:0", "{\"query\": oops")));
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.arguments(0), "{\"query\": oops");
}

TEST_F(KimiAnswersTest, Case15And21IdsWithoutColonPrefixOrName) {
  for (const char* id : {"functions.get_weather", "get_weather:7", "get_weather", "functions.get_weather:"}) {
    const Reply reply = Answer(Section(Call(id, kParis)));
    ASSERT_EQ(reply.calls(), 1u) << id;
    EXPECT_EQ(reply.name(0), "get_weather") << id;
    EXPECT_EQ(reply.id(0), "functions.get_weather:0") << id;
  }
  Reply reply =
      Answer(Section(Call("3", kParis) + Call("functions.4", R"({"query": "q"})") + Call("5", "[]")));
  ASSERT_EQ(reply.calls(), 3u);
  EXPECT_EQ(reply.name(0), "get_weather") << "the only tool with a city";
  EXPECT_EQ(reply.arguments(0), kParis);
  EXPECT_EQ(reply.name(1), "search");
  EXPECT_EQ(reply.name(2), "5") << "no tool can be recognised";
  request_.conversation->tools.erase(1);
  reply = Answer(Section(Call("0", "")));
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.name(0), "get_weather") << "the only tool";
  EXPECT_EQ(reply.arguments(0), "{}");
}

TEST_F(KimiAnswersTest, Case16MaxTokensInsideTheArguments) {
  const std::string said =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0"
      "<|tool_call_argument_begin|>{\"query\": \"Par";
  const Reply reply = Answer(said, engine::FinishReason::kLength);
  EXPECT_EQ(reply.finish_reason, "length");
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.arguments(0), "{\"query\": \"Par");
  EXPECT_EQ(Answer(Section(Call("functions.search:0", "{}")), engine::FinishReason::kLength).finish_reason,
            "length");
}

// 17: state shared between requests gave empty deltas under load.
TEST_F(KimiAnswersTest, Case17GenerationsDoNotShareState) {
  const std::vector<TokenId> ids = Ids("<think>r</think>c" + Section(Call("functions.search:0", "{}")));
  constexpr size_t kAnswers = 8;
  std::deque<OneAnswer> all;
  for (size_t i = 0; i < kAnswers; ++i) {
    all.emplace_back(
        request_,
        ChoiceSetup{.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_});
  }
  for (size_t at = 0; at < ids.size() + kAnswers; ++at) {
    for (size_t i = 0; i < kAnswers; ++i) {  // each is one token later than the one before
      if (at < i || at - i >= ids.size()) continue;
      const bool last = at - i + 1 == ids.size();
      all[i].Take({.tokens = {ids[at - i]},
                   .finish = last ? engine::FinishReason::kStop : engine::FinishReason::kNone,
                   .error = {}});
    }
  }
  const ChatStream first = ReadChatStream(all[0].events);
  EXPECT_EQ(first.message["tool_calls"].size(), 1u);
  for (const OneAnswer& other : all) EXPECT_EQ(ReadChatStream(other.events).message, first.message);
}

TEST_F(KimiAnswersTest, Case19AnEmptyTurnAfterTheReasoning) {
  for (const char* said : {"<think>done</think>", "<think>done</think>\n\n", "<think>done\n"}) {
    const Reply reply = Answer(said);
    EXPECT_EQ(reply.reasoning(), "done");
    EXPECT_EQ(reply.content(), "") << "content without text is empty, not null";
    EXPECT_EQ(reply.finish_reason, "stop");
  }
  EXPECT_EQ(Answer("").content(), "");
  EXPECT_EQ(Answer("<think></think>").reasoning(), "(none)");
}

TEST_F(KimiAnswersTest, Case20AngleBracketsAndMarksInsideArguments) {
  for (const char* html :
       {"<b>x</b> <|a|> </tool_call>", "<think>x</think>", "<|tool_call_argument_begin|>"}) {
    const std::string arguments = fmt::format(R"({{"query": "{}"}})", html);
    const Reply reply = Answer(Section(Call("functions.search:0", arguments)));
    ASSERT_EQ(reply.calls(), 1u);
    EXPECT_EQ(reply.arguments(0), arguments);
  }
}

TEST_F(KimiAnswersTest, Case22OptionalParametersAfterReasoningStay) {
  const std::string arguments = R"({"city": "Paris", "unit": "celsius", "extra": [1, 2.50, null]})";
  const Reply reply =
      Answer("<think>With unit.</think>" + Section(Call("functions.get_weather:0", arguments)));
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.arguments(0), arguments) << "byte for byte";
}

TEST_F(KimiAnswersTest, MissingMarksOfTheSectionAndOfCalls) {
  const std::string head = "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>";
  Reply reply = Answer("a" + Call("functions.search:0", "{}") + "b");
  EXPECT_EQ(reply.content(), "ab") << "no section around the call";
  EXPECT_EQ(reply.calls(), 1u);
  reply = Answer("<|tool_calls_section_begin|>" + head + "{}" + head +
                 "{\"query\": 1}<|tool_calls_section_end|>x");
  ASSERT_EQ(reply.calls(), 2u) << "the marks that end the calls are missing";
  EXPECT_EQ(reply.arguments(0), "{}");
  EXPECT_EQ(reply.arguments(1), "{\"query\": 1}");
  EXPECT_EQ(reply.content(), "x");
  reply = Answer(Section("<|tool_call_begin|>functions.search:0<|tool_call_end|>"));
  ASSERT_EQ(reply.calls(), 1u) << "the arguments are missing";
  EXPECT_EQ(reply.arguments(0), "{}");
  EXPECT_EQ(Answer("a<|tool_call_end|><|tool_calls_section_end|><|tool_call_argument_begin|>b").content(),
            "ab");
}

TEST_F(KimiAnswersTest, ACallThatToolChoiceNamedDoesNotChangeTheFinishReason) {
  request_.conversation->calls.choice = CallPolicy::Choice::kNamed;
  EXPECT_EQ(Answer(Section(Call("functions.search:0", "{}"))).finish_reason, "stop");
}

TEST_F(KimiAnswersTest, WithoutParallelCallsTheAnswerEndsAfterOne) {
  request_.conversation->calls.parallel = false;
  const Reply reply = Answer(
      "a" + Section(Call("functions.search:0", "{\"query\": 1}") + Call("functions.search:1", "{}")) + "b");
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.arguments(0), "{\"query\": 1}");
  EXPECT_EQ(reply.content(), "a");
  EXPECT_EQ(reply.finish_reason, "tool_calls");
  OneAnswer answer(request_,
                   {.tokenizer = tokenizer_, .format = format_, .eos_token_ids = eos_, .prompt = prompt_});
  const std::vector<TokenId> ids = Ids(Section(Call("functions.search:0", "{}")));
  answer.Take({.tokens = ids, .error = {}});
  EXPECT_TRUE(answer.choice().done() && answer.choice().ended_early()) << "the engine must be told";
  EXPECT_EQ(answer.choice().completion_tokens(), static_cast<int>(ids.size()) - 1)
      << "the token after the call";
}

TEST_F(KimiAnswersTest, CallsWithoutDeclaredToolsAreTextWithoutMarks) {
  request_.conversation->tools = nullptr;
  const Reply reply = Answer("<think>r" + Section(Call("functions.search:0", "{}")));
  EXPECT_EQ(reply.reasoning(), "r");
  EXPECT_EQ(reply.content(), "functions.search:0{}");
  EXPECT_EQ(reply.finish_reason, "stop");
}

TEST_F(KimiAnswersTest, ThePromptShowsWhetherReasoningIsOpen) {
  prompt_ = Ids("<|im_user|>x<|im_end|><|im_assistant|>assistant<|im_middle|><think>");
  EXPECT_EQ(Answer("hm</think>yes").reasoning(), "hm");
  EXPECT_EQ(Answer("<think>hm</think>yes").reasoning(), "hm") << "the reasoning was opened twice";
  prompt_ = Ids("<|im_assistant|>assistant<|im_middle|><think></think>");
  EXPECT_EQ(Answer("\nyes").content(), "yes");
  EXPECT_EQ(Answer("yes").reasoning(), "(none)");
  prompt_ =
      Ids("<|im_assistant|>assistant<|im_middle|><think>old<|im_end|><|im_assistant|>assistant<|im_middle|>");
  EXPECT_EQ(Answer("yes").content(), "yes") << "the mark belongs to an earlier turn";
}

TEST_F(KimiAnswersTest, QuotedThinkMarksInTheAnswerAreText) {
  const Reply reply = Answer("<think>a <think> b</think>Write <think> and </think>.");
  EXPECT_EQ(reply.reasoning(), "a <think> b");
  EXPECT_EQ(reply.content(), "Write <think> and </think>.");
}

TEST_F(KimiAnswersTest, StopStringsAreSearchedOnlyInContent) {
  request_.stop = {"STOP", "r:0"};
  Reply reply =
      Answer("<think>STOP r:0</think>a ST" + Section(Call("functions.r:0", "\"STOP\"")) + "OP b STOP c");
  EXPECT_EQ(reply.reasoning(), "STOP r:0");
  EXPECT_EQ(reply.content(), "a STOP b ") << "a stop string cannot extend over a call";
  ASSERT_EQ(reply.calls(), 1u);
  EXPECT_EQ(reply.arguments(0), "\"STOP\"");
  EXPECT_EQ(reply.finish_reason, "tool_calls");
  reply = Answer("a STOP" + Section(Call("functions.r:0", "{}")));
  EXPECT_EQ(reply.content(), "a ");
  EXPECT_EQ(reply.calls(), 0u);
  EXPECT_EQ(reply.finish_reason, "stop");
}

// The template writes a turn in the form that the model was trained on; parsing it must return the turn.
TEST(KimiRoundTripTest, TurnsAsTheTemplateRendersThem) {
  const std::string model = "tests/golden/data/tiny-chat";
  const auto tokenizer = text::Tokenizer::Load(model);
  const auto chat_template = text::ChatTemplate::Load(model);
  ASSERT_TRUE(tokenizer.ok() && chat_template.ok());
  const text::OutputFormat format = *text::ChooseOutputFormat(**tokenizer, "auto", "auto");
  GenerationRequest request = ChatOf();
  Conversation& asked = *request.conversation;
  asked.messages = ordered_json::parse(R"([{"role": "user", "content": "Grüße"}])");
  asked.tools = ordered_json::parse(kTools);
  ordered_json turn = ordered_json::parse(R"({"role": "assistant", "content": "Let me <b>see</b> 🎉.",
    "reasoning_content": "Two calls?\nYes.", "tool_calls": [
      {"id": "functions.get_weather:0", "type": "function",
       "function": {"name": "get_weather", "arguments": {"city": "Paris", "unit": "<|im_end|>"}}},
      {"id": "functions.search:1", "type": "function",
       "function": {"name": "search", "arguments": {"query": ["a", 1.5, null, {}]}}}]})");
  ordered_json messages = asked.messages;
  messages.push_back(turn);
  const auto render = [&](const ordered_json& conversation, bool add_generation_prompt) {
    const auto segments = (*chat_template)
                              ->Render({.messages = conversation,
                                        .tools = asked.tools,
                                        .add_generation_prompt = add_generation_prompt});
    EXPECT_TRUE(segments.ok()) << segments.status();
    return (*tokenizer)->EncodeSegments(*segments);
  };
  const std::vector<TokenId> prompt = render(asked.messages, true);
  std::vector<TokenId> said = render(messages, false);
  ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), said.begin()));
  said.erase(said.begin(), said.begin() + prompt.size());
  const std::vector<TokenId> eos = {*(*tokenizer)->SpecialId("<|im_end|>")};
  OneAnswer answer(request,
                   {.tokenizer = **tokenizer, .format = format, .eos_token_ids = eos, .prompt = prompt});
  answer.Take({.tokens = said, .finish = engine::FinishReason::kStop, .error = {}});
  ordered_json message = ordered_json::parse(answer.Whole()).at("choices")[0].at("message");
  for (ordered_json& call : message["tool_calls"]) {
    ordered_json& arguments = call["function"]["arguments"];
    arguments = ordered_json::parse(arguments.get<std::string>());
  }
  for (const char* field : {"content", "reasoning_content", "tool_calls"})
    EXPECT_EQ(message[field], turn[field]);
}

}  // namespace
}  // namespace numoe::serving
