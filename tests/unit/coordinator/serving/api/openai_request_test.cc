// Requests as clients send them: what each field accepts, its value if it is absent, and that an error names
// the field.
#include "coordinator/serving/api/openai_request.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/serving/api/preparation.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using Parsed = std::variant<GenerationRequest, net::ApiError>;
using nlohmann::ordered_json;

constexpr GenerationDefaults kDefaults{.temperature = 0.6, .top_p = 0.95, .top_k = 20, .min_p = 0.01};

Parsed ReadRequest(std::string_view body, bool chat, const GenerationDefaults& defaults) {
  const auto json = ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return *error;
  const auto& root = std::get<ordered_json>(json);
  return chat ? ReadChatRequest(root, defaults) : ReadTextRequest(root, defaults);
}

// A valid request with `fields` ("\"n\": 1") after the required one.
Parsed ParseOpenaiRequest(const std::string& fields, bool chat) {
  const std::string required =
      chat ? R"("messages": [{"role": "user", "content": "hi"}])" : R"("prompt": "p")";
  return ReadRequest(fmt::format("{{{}{}{}}}", required, fields.empty() ? "" : ", ", fields), chat,
                     kDefaults);
}

GenerationRequest AcceptedOpenaiRequest(const Parsed& parsed) {
  if (const auto* error = std::get_if<net::ApiError>(&parsed)) {
    ADD_FAILURE() << "refused: " << error->message;
    return {};
  }
  return std::get<GenerationRequest>(parsed);
}

// The parameter that an error names; "(none)" if it names none.
std::string RefusedParamOpenaiRequest(const Parsed& parsed) {
  const auto* error = std::get_if<net::ApiError>(&parsed);
  if (error == nullptr) return "(accepted)";
  EXPECT_EQ(error->http_status, 400);
  EXPECT_EQ(error->type, "invalid_request_error");
  EXPECT_FALSE(error->message.empty());
  return error->param.value_or("(none)");
}

std::string RefusedMessages(const std::string& messages) {
  return RefusedParamOpenaiRequest(ReadRequest(fmt::format(R"({{"messages": {}}})", messages), true, {}));
}

TEST(OpenAiRequestTest, AbsentAndNullFieldsTakeTheModelsDefaults) {
  for (const char* fields :
       {"", R"("temperature": null, "top_p": null, "top_k": null, "min_p": null, "seed": null, "stop": null,
               "max_tokens": null, "max_completion_tokens": null, "n": null, "stream": null, "tools": null,
               "stream_options": null, "stop_token_ids": null, "ignore_eos": null, "model": null,
               "chat_template_kwargs": null, "tool_choice": null, "parallel_tool_calls": null)"}) {
    for (const bool chat : {true, false}) {
      const GenerationRequest request = AcceptedOpenaiRequest(ParseOpenaiRequest(fields, chat));
      EXPECT_EQ(request.conversation.has_value(), chat);
      EXPECT_EQ(request.prompts.size(), chat ? 0u : 1u);
      EXPECT_EQ(request.sampling.temperature, kDefaults.temperature);
      EXPECT_EQ(request.sampling.top_p, kDefaults.top_p);
      EXPECT_EQ(request.sampling.top_k, kDefaults.top_k);
      EXPECT_EQ(request.sampling.min_p, kDefaults.min_p);
      EXPECT_FALSE(request.sampling.seed || request.sampling.ignore_eos || request.stream);
      EXPECT_FALSE(request.include_usage || request.sampling.logprobs || request.echo);
      EXPECT_EQ(request.n, 1);
      EXPECT_EQ(request.best_of, 1);
      EXPECT_EQ(request.sampling.max_tokens, chat ? std::nullopt : std::optional(16));
      EXPECT_TRUE(request.stop.empty() && request.sampling.stop_token_ids.empty() && request.model.empty());
      if (!chat) continue;
      EXPECT_TRUE(request.conversation->tools.is_null() && request.conversation->calls.parallel);
      EXPECT_EQ(request.conversation->calls.choice, CallPolicy::Choice::kNone);
    }
  }
}

TEST(OpenAiRequestTest, EveryFieldIsRead) {
  const GenerationRequest request = AcceptedOpenaiRequest(ParseOpenaiRequest(
      R"("model": "m", "temperature": 0, "top_p": 0.5, "top_k": 7, "min_p": 0.25, "seed": -1, "stop": "\n",
         "stop_token_ids": [0, 2147483647], "ignore_eos": true, "stream": true, "n": 1,
         "stream_options": {"include_usage": true, "unknown": 1}, "tools": [{"type": "function", "function": {"name": "f"}}],
         "chat_template_kwargs": {"thinking": true}, "max_tokens": 5)",
      true));
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.min_p, 0.25);
  EXPECT_EQ(request.sampling.seed, std::nullopt) << "-1 means no seed";
  EXPECT_EQ(request.sampling.max_tokens, 5);
  EXPECT_EQ(request.stop, std::vector<std::string>{"\n"});
  EXPECT_EQ(request.sampling.stop_token_ids, (std::vector<TokenId>{0, 2147483647}));
  EXPECT_TRUE(request.sampling.ignore_eos && request.stream && request.include_usage);
  EXPECT_EQ(request.conversation->tools.size(), 1u);
  EXPECT_EQ(request.conversation->template_kwargs, ordered_json({{"thinking", true}}));
}

TEST(OpenAiRequestTest, AWrongValueIsRefusedByItsName) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"model", {"1", "[]", "true"}},
      {"temperature", {"\"1\"", "true", "[]", "{}", "-0.1", "2.1", "1e300"}},
      {"top_p", {"\"1\"", "true", "-0.1", "1.1"}},
      {"top_k", {"\"1\"", "1.5", "-2", "1000000001"}},
      {"min_p", {"\"1\"", "-0.1", "1.1"}},
      {"seed", {"\"1\"", "1.5", "1e30", "18446744073709551615"}},
      {"max_tokens", {"\"1\"", "1.5", "0", "-1", "2147483648", "18446744073709551615"}},
      {"n", {"\"1\"", "0", "129", "1.5"}},
      {"best_of", {"\"1\"", "0", "129"}},
      {"frequency_penalty", {"\"1\"", "2.1", "-2.1", "[]"}},
      {"presence_penalty", {"\"1\"", "2.1", "-2.1"}},
      {"repetition_penalty", {"\"1\"", "0", "2.1"}},
      {"logit_bias", {"1", "[]", "{\"a\": 1}", "{\"1\": 101}", "{\"-1\": 1}", "{\"1x\": 1}"}},
      {"min_tokens", {"\"1\"", "-1"}},
      {"priority", {"\"1\"", "1.5"}},
      {"timeout", {"0", "\"1\""}},
      {"cache_salt", {"1", "[]"}},
      {"stream", {"1", "\"true\"", "{}"}},
      {"stream_options", {"true", "[]", "\"include_usage\""}},
      {"ignore_eos", {"1", "\"true\""}},
      {"stop", {"1", "{}", "\"\""}},
      {"stop_token_ids", {"1", "{}"}}};
  for (const auto& [name, values] : wrong) {
    for (const std::string& value : values) {
      for (const bool chat : {true, false}) {
        EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(fmt::format("\"{}\": {}", name, value), chat)),
                  name)
            << value;
      }
    }
  }
  for (const char* value : {"\"\"", "1", "null", "[\"a\"]"}) {
    EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(fmt::format(R"("stop": ["a", {}])", value), true)),
              "stop[1]");
  }
  for (const char* value : {"-1", "1.5", "\"1\"", "2147483648"}) {
    EXPECT_EQ(RefusedParamOpenaiRequest(
                  ParseOpenaiRequest(fmt::format(R"("stop_token_ids": [1, 2, {}])", value), true)),
              "stop_token_ids[2]");
  }
  for (const char* value : {"1", "{}", "\"f\""}) {
    EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(fmt::format("\"tools\": {}", value), true)),
              "tools");
    EXPECT_EQ(RefusedParamOpenaiRequest(
                  ParseOpenaiRequest(fmt::format("\"max_completion_tokens\": [{}]", value), true)),
              "max_completion_tokens");
  }
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("chat_template_kwargs": [])", true)),
            "chat_template_kwargs");
}

TEST(OpenAiRequestTest, OptionsOfAStreamNeedOne) {
  for (const bool chat : {true, false}) {
    const auto parse = [chat](const std::string& fields) { return ParseOpenaiRequest(fields, chat); };
    EXPECT_EQ(RefusedParamOpenaiRequest(parse(R"("stream_options": {"include_usage": true})")),
              "stream_options");
    EXPECT_EQ(RefusedParamOpenaiRequest(parse(R"("stream": false, "stream_options": {})")), "stream_options");
    EXPECT_FALSE(AcceptedOpenaiRequest(parse(R"("stream": false, "stream_options": null)")).stream);
    EXPECT_EQ(RefusedParamOpenaiRequest(parse(R"("stream": true, "stream_options": {"include_usage": 1})")),
              "stream_options.include_usage");
    const auto continuous = [&](const char* usage) {
      const GenerationRequest request = AcceptedOpenaiRequest(parse(fmt::format(
          R"("stream": true, "stream_options": {{"include_usage": {}, "continuous_usage_stats": true}})",
          usage)));
      EXPECT_EQ(request.include_usage, request.continuous_usage);
      return request.continuous_usage;
    };
    EXPECT_TRUE(continuous("true"));
    EXPECT_FALSE(continuous("false")) << "without include_usage there is no continuous usage either";
  }
}

TEST(OpenAiRequestTest, TheErrorNamesTheFirstWrongFieldAndNoUnknownOne) {
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("stop": 1, "temperature": "hot")", true)),
            "temperature");
  AcceptedOpenaiRequest(ParseOpenaiRequest(R"("user": "u", "store": [], "metadata": 7, "x": null)", true));
}

TEST(OpenAiRequestTest, ToolChoice) {
  constexpr char kTools[] = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const auto parse = [&](const std::string& choice) {
    return ParseOpenaiRequest(
        fmt::format(R"({}, "parallel_tool_calls": false, "tool_choice": {})", kTools, choice), true);
  };
  EXPECT_EQ(AcceptedOpenaiRequest(parse(R"("auto")")).conversation->tools.size(), 1u);
  EXPECT_FALSE(AcceptedOpenaiRequest(parse("null")).conversation->calls.parallel);
  EXPECT_TRUE(AcceptedOpenaiRequest(parse(R"("none")")).conversation->tools.is_null())
      << "tools that must not be called are not shown to the model";
  for (const char* forced : {R"("required")", R"({"type": "function", "function": {"name": "f"}})"}) {
    const Conversation request = *AcceptedOpenaiRequest(parse(forced)).conversation;
    EXPECT_TRUE(request.calls.demanded()) << forced;
    EXPECT_EQ(request.calls.calls.size(), 1u);
    EXPECT_EQ(request.tools.size(), 1u);
  }
  for (const char* wrong : {R"("f")", "1", "[]", R"({"type": "function", "function": {"name": "g"}})"})
    EXPECT_EQ(RefusedParamOpenaiRequest(parse(wrong)), "tool_choice") << wrong;
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("tool_choice": "required")", true)),
            "tool_choice");
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("parallel_tool_calls": 1)", true)),
            "parallel_tool_calls");
}

TEST(OpenAiRequestTest, ReasoningOfEarlierTurnsHasEitherName) {
  for (const char* field : {R"("reasoning_content": "r")", R"("reasoning": "r")",
                            R"("reasoning": "r", "reasoning_content": null)"}) {
    const GenerationRequest request = AcceptedOpenaiRequest(ReadRequest(
        fmt::format(R"({{"messages": [{{"role": "assistant", "content": "a", {}}}]}})", field), true, {}));
    EXPECT_EQ(request.conversation->messages[0].value("reasoning_content", ""), "r") << field;
  }
  EXPECT_EQ(RefusedMessages(R"([{"role": "assistant", "content": "a", "reasoning": ["r"]}])"),
            "messages[0].reasoning");
}

TEST(OpenAiRequestTest, ABodyThatIsNotAnObjectNamesNoParameter) {
  for (const char* body :
       {"", "{", "[]", "1", "null", "\"{}\"", "{} {}", "{\"prompt\": \"\xff\"}", "\xef\xbb"})
    EXPECT_EQ(RefusedParamOpenaiRequest(ReadRequest(body, false, {})), "(none)") << body;
}

TEST(OpenAiRequestTest, TheNewerNameOfMaxTokensWinsInChatsOnly) {
  constexpr char kBoth[] = R"("max_tokens": 3, "max_completion_tokens": 9)";
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(kBoth, true)).sampling.max_tokens, 9);
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(kBoth, false)).sampling.max_tokens, 3);
  EXPECT_EQ(
      AcceptedOpenaiRequest(ParseOpenaiRequest(R"("max_tokens": 3, "max_completion_tokens": null)", true))
          .sampling.max_tokens,
      3);
}

TEST(OpenAiRequestTest, LimitsAreIncluded) {
  EXPECT_EQ(
      AcceptedOpenaiRequest(ParseOpenaiRequest(R"("max_tokens": 2147483647)", true)).sampling.max_tokens,
      INT32_MAX);
  EXPECT_EQ(
      AcceptedOpenaiRequest(ParseOpenaiRequest(R"("temperature": 2, "top_p": 1)", true)).sampling.temperature,
      2);
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("top_k": -1)", true)).sampling.top_k, 0)
      << "-1 switches it off";
  std::string stops = "\"s\"";
  for (int i = 1; i < 16; ++i) stops += ", \"s\"";
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(fmt::format("\"stop\": [{}]", stops), true)).stop.size(),
            16u);
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(fmt::format("\"stop\": [{}, \"s\"]", stops), true)),
            "stop");
}

TEST(OpenAiRequestTest, PromptsAreTextOrIdsOneOrMany) {
  const auto parse = [](const std::string& prompt) {
    return ReadRequest(fmt::format(R"({{"prompt": {}}})", prompt), false, {});
  };
  EXPECT_EQ(AcceptedOpenaiRequest(parse(R"("once")")).prompts[0].text, "once");
  EXPECT_EQ(AcceptedOpenaiRequest(parse(R"(["once"])")).prompts[0].text, "once");
  EXPECT_EQ(AcceptedOpenaiRequest(parse("[1, 2]")).prompts[0].tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(AcceptedOpenaiRequest(parse("[[1, 2]]")).prompts[0].tokens, (std::vector<TokenId>{1, 2}));
  const GenerationRequest many = AcceptedOpenaiRequest(parse(R"(["a", [3], "b"])"));
  ASSERT_EQ(many.prompts.size(), 3u);
  EXPECT_EQ(many.prompts[1].tokens, std::vector<TokenId>{3});
  EXPECT_EQ(many.prompts[2].text, "b");
  for (const char* wrong : {"null", "1", "{}", R"([1, "a"])", "[-1]", "[1.5]", "[2147483648]"})
    EXPECT_EQ(RefusedParamOpenaiRequest(parse(wrong)), "prompt") << wrong;
  for (const char* wrong : {R"(["a", [[1]]])", R"(["a", null])", R"([[1], 2])"})
    EXPECT_EQ(RefusedParamOpenaiRequest(parse(wrong)), "prompt[1]") << wrong;
  EXPECT_EQ(RefusedParamOpenaiRequest(ReadRequest("{}", false, {})), "prompt");
}

TEST(OpenAiRequestTest, LogprobsAreASwitchInChatsAndANumberInCompletions) {
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("logprobs": true)", true)).sampling.logprobs, 0);
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("logprobs": true, "top_logprobs": 20)", true))
                .sampling.logprobs,
            20);
  EXPECT_FALSE(
      AcceptedOpenaiRequest(ParseOpenaiRequest(R"("logprobs": false)", true)).sampling.logprobs.has_value());
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("top_logprobs": 2)", true)), "top_logprobs");
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("logprobs": true, "top_logprobs": 21)", true)),
            "top_logprobs");
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("logprobs": 1)", true)), "logprobs");
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("logprobs": 3)", false)).sampling.logprobs, 3);
  EXPECT_FALSE(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("logprobs": 3)", false))
                   .sampling.prompt_logprobs.has_value());
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("logprobs": 3, "echo": true)", false))
                .sampling.prompt_logprobs,
            3);
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("logprobs": true)", false)), "logprobs");
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("prompt_logprobs": 1, "stream": true)", true)),
            "prompt_logprobs");
}

TEST(OpenAiRequestTest, SeveralChoicesAndBestOf) {
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("n": 3)", true)).best_of, 3);
  const GenerationRequest best = AcceptedOpenaiRequest(ParseOpenaiRequest(R"("n": 2, "best_of": 5)", false));
  EXPECT_EQ(best.n, 2);
  EXPECT_EQ(best.best_of, 5);
  EXPECT_EQ(AcceptedOpenaiRequest(ParseOpenaiRequest(R"("n": 3, "best_of": 1)", true)).best_of, 3)
      << "benchmarks send best_of 1 with every request";
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("n": 3, "best_of": 2)", false)), "best_of");
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("best_of": 2, "stream": true)", false)),
            "best_of");
}

TEST(OpenAiRequestTest, EffortSwitchesThinkingWithTheTemplatesVariables) {
  const auto kwargs = [](const std::string& fields) {
    return AcceptedOpenaiRequest(ParseOpenaiRequest(fields, true)).conversation->template_kwargs;
  };
  EXPECT_EQ(kwargs(R"("reasoning_effort": "none")"),
            ordered_json({{"thinking", false}, {"enable_thinking", false}, {"reasoning_effort", "none"}}));
  EXPECT_EQ(kwargs(R"("reasoning_effort": "high", "chat_template_kwargs": {"thinking": false})"),
            ordered_json({{"thinking", false}, {"reasoning_effort", "high"}}))
      << "variables that the client sets itself are kept";
  EXPECT_EQ(kwargs(R"("thinking": {"type": "disabled"})"),
            ordered_json({{"thinking", false}, {"enable_thinking", false}}));
  EXPECT_TRUE(kwargs("").is_null());
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("reasoning_effort": "lots")", true)),
            "reasoning_effort");
}

TEST(OpenAiRequestTest, ReasoningIsSeparateByDefault) {
  const auto read = [](const char* fields) {
    return AcceptedOpenaiRequest(ParseOpenaiRequest(fields, true));
  };
  for (const char* apart : {"", R"("separate_reasoning": true)", R"("reasoning_format": "auto")",
                            R"("reasoning_format": "deepseek")", R"("reasoning_format": null)"}) {
    EXPECT_TRUE(read(apart).separate_reasoning && read(apart).include_reasoning) << apart;
  }
  for (const char* within : {R"("separate_reasoning": false)", R"("reasoning_format": "none")"}) {
    EXPECT_FALSE(read(within).separate_reasoning) << within;
    EXPECT_TRUE(read(within).include_reasoning) << "the reasoning is still returned";
  }
  EXPECT_FALSE(read(R"("include_reasoning": false)").include_reasoning);
  EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(R"("reasoning_format": "deepseek-legacy")", true)),
            "reasoning_format");
}

TEST(OpenAiRequestTest, StructuredOutputIsAskedForInEveryDialect) {
  using Kind = text::GrammarSource::Kind;
  const std::string schema = R"({"type":"object","properties":{"b":{},"a":{}}})";
  const std::tuple<std::string, Kind, std::string> asked[] = {
      {R"("response_format": {"type": "json_object"})", Kind::kJsonObject, ""},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": )" +
           schema + "}}",
       Kind::kJsonSchema, schema},
      {R"("structured_outputs": {"json": )" + schema + "}", Kind::kJsonSchema, schema},
      {R"("structured_outputs": {"json": "{\"type\": \"null\"}"})", Kind::kJsonSchema, R"({"type": "null"})"},
      {R"("structured_outputs": {"json_object": true})", Kind::kJsonObject, ""},
      {R"("structured_outputs": {"regex": "a+"})", Kind::kRegex, "a+"},
      {R"("structured_outputs": {"choice": ["x", "ü"]})", Kind::kChoice, R"(["x","ü"])"},
      {R"("structured_outputs": {"grammar": "root ::= \"a\""})", Kind::kEbnf, R"(root ::= "a")"},
      {R"("guided_json": )" + schema, Kind::kJsonSchema, schema},
      {R"("guided_choice": ["x"])", Kind::kChoice, R"(["x"])"},
      {R"("json_schema": "true")", Kind::kJsonSchema, "true"},
      {R"("regex": "a+")", Kind::kRegex, "a+"},
      {R"("ebnf": "root ::= \"a\"")", Kind::kEbnf, R"(root ::= "a")"}};
  for (const auto& [fields, kind, text] : asked) {
    for (const bool chat : {true, false}) {
      const GenerationRequest request = AcceptedOpenaiRequest(ParseOpenaiRequest(fields, chat));
      ASSERT_TRUE(request.structure.has_value()) << fields;
      EXPECT_EQ(*request.structure, (text::GrammarSource{kind, text})) << fields;
      EXPECT_EQ(request.structure_param.rfind(fields.substr(1, fields.find('"', 1) - 1), 0), 0u);
    }
  }
  for (const char* fields : {R"("response_format": {"type": "text"})", R"("response_format": null)",
                             R"("structured_outputs": {"json_object": false, "regex": null})"})
    EXPECT_FALSE(AcceptedOpenaiRequest(ParseOpenaiRequest(fields, true)).structure.has_value()) << fields;
}

TEST(OpenAiRequestTest, WrongStructuredOutputIsRefused) {
  const std::vector<std::pair<const char*, const char*>> formats = {
      {"1", ""},
      {"\"json_object\"", ""},
      {"{}", ".type"},
      {R"({"type": 1})", ".type"},
      {R"({"type": "sound"})", ".type"},
      {R"({"type": "json_schema"})", ".json_schema"},
      {R"({"type": "json_schema", "json_schema": "s"})", ".json_schema"},
      {R"({"type": "json_schema", "json_schema": {"schema": {}}})", ".json_schema.name"},
      {R"({"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}})", ".json_schema.name"},
      {R"({"type": "json_schema", "json_schema": {"name": "", "schema": {}}})", ".json_schema.name"},
      {R"({"type": "json_schema", "json_schema": {"name": "n", "strict": "yes", "schema": {}}})",
       ".json_schema.strict"},
      {R"({"type": "json_schema", "json_schema": {"name": "n"}})", ".json_schema.schema"},
      {R"({"type": "json_schema", "json_schema": {"name": "n", "schema": 1}})", ".json_schema.schema"}};
  for (const auto& [value, place] : formats) {
    EXPECT_EQ(
        RefusedParamOpenaiRequest(ParseOpenaiRequest(fmt::format(R"("response_format": {})", value), true)),
        "response_format" + std::string(place))
        << value;
  }
  for (const auto& [value, place] :
       std::vector<std::pair<const char*, const char*>>{{"1", ""},
                                                        {R"({"regex": 1})", ".regex"},
                                                        {R"({"choice": "a"})", ".choice"},
                                                        {R"({"grammar": []})", ".grammar"},
                                                        {R"({"regex": "a", "choice": ["a"]})", ".choice"}}) {
    EXPECT_EQ(RefusedParamOpenaiRequest(
                  ParseOpenaiRequest(fmt::format(R"("structured_outputs": {})", value), true)),
              "structured_outputs" + std::string(place))
        << value;
  }
  EXPECT_EQ(RefusedParamOpenaiRequest(
                ParseOpenaiRequest(R"("response_format": {"type": "json_object"}, "regex": "a")", true)),
            "regex")
      << "only one kind is allowed";
}

TEST(OpenAiRequestTest, ContentInPartsIsJoined) {
  const GenerationRequest request = AcceptedOpenaiRequest(ReadRequest(
      R"({"messages": [{"role": "developer", "content": "s"},
          {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "ü"}]}]})",
      true, {}));
  ASSERT_EQ(request.conversation->messages.size(), 2u);
  EXPECT_EQ(request.conversation->messages[0].at("role"), "system");
  EXPECT_EQ(request.conversation->messages[1].at("content"), "aü");
}

TEST(OpenAiRequestTest, ARefusalOfAnEarlierTurnIsItsText) {
  for (const char* said : {R"("content": [{"type": "refusal", "refusal": "no"}])",
                           R"("content": null, "refusal": "no")", R"("content": "no", "refusal": null)"}) {
    const GenerationRequest request = AcceptedOpenaiRequest(
        ReadRequest(fmt::format(R"({{"messages": [{{"role": "assistant", {}}}]}})", said), true, {}));
    EXPECT_EQ(request.conversation->messages[0].at("content"), "no") << said;
  }
}

TEST(OpenAiRequestTest, MalformedMessagesAreRefusedByTheirPlace) {
  EXPECT_EQ(RefusedParamOpenaiRequest(ReadRequest("{}", true, {})), "messages");
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"null", "messages"},
      {"[]", "messages"},
      {"{}", "messages"},
      {"\"hi\"", "messages"},
      {"[1]", "messages[0]"},
      {"[{}]", "messages[0].role"},
      {R"([{"role": 1, "content": "x"}])", "messages[0].role"},
      {R"([{"role": "user", "content": "x"}, {"role": "robot: expected x", "content": "x"}])",
       "messages[1].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": 1}])", "messages[0].content"},
      {R"([{"role": "user", "content": null}])", "messages[0].content"},
      {R"([{"role": "user", "content": ["x"]}])", "messages[0].content[0]"},
      {R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}])",
       "messages[0].content[1].type"},
      {R"([{"role": "user", "content": [{"text": "a"}]}])", "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 1}]}])", "messages[0].content[0].text"},
      {R"([{"role": "assistant", "content": [{"type": "refusal", "text": "a"}]}])",
       "messages[0].content[0].refusal"},
      {R"([{"role": "assistant", "tool_calls": {}}])", "messages[0].tool_calls"},
      {R"([{"role": "assistant", "tool_calls": [{}]}])", "messages[0].tool_calls[0].function"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}])",
       "messages[0].tool_calls[0].function.name"}};
  for (const auto& [messages, param] : wrong) EXPECT_EQ(RefusedMessages(messages), param) << messages;
}

TEST(OpenAiRequestTest, AToolResultAnswersAnEarlierCall) {
  const auto talk = [](const std::string& result) {
    return R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
      {"id": "b", "type": "function", "function": {"name": "f", "arguments": "no JSON"}}]},
      {"role": "user", "content": "Well?"}, )" +
           result + "]";
  };
  EXPECT_EQ(RefusedMessages(talk(R"({"role": "tool", "tool_call_id": "b", "content": "1"})")), "(accepted)")
      << "a call needs no result, and other messages may come between";
  for (const char* wrong :
       {"", R"("tool_call_id": "c",)", R"("tool_call_id": null,)", R"("tool_call_id": 1,)"}) {
    EXPECT_EQ(RefusedMessages(talk(fmt::format(R"({{"role": "tool", {} "content": "1"}})", wrong))),
              "messages[3].tool_call_id")
        << wrong;
  }
  EXPECT_EQ(RefusedMessages(R"([{"role": "tool", "tool_call_id": "a", "content": "1"}])"),
            "messages[0].tool_call_id");
}

TEST(OpenAiRequestTest, ToolsAreCheckedWhetherTheyMayBeCalledOrNot) {
  for (const char* choice : {"\"auto\"", "\"none\"", "\"required\""}) {
    EXPECT_EQ(RefusedParamOpenaiRequest(ParseOpenaiRequest(
                  fmt::format(R"("tools": [{{"type": "function"}}], "tool_choice": {})", choice), true)),
              "tools[0].function");
  }
  EXPECT_TRUE(
      AcceptedOpenaiRequest(ParseOpenaiRequest(R"("tools": [])", true)).conversation->tools.is_null());
}

}  // namespace
}  // namespace numoe::serving
