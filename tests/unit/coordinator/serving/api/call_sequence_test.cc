// Calls sampled from the masks, in every format: the real parser reads each of them completely, and an
// independent validator finds that the arguments match the tool's schema. In the other direction: calls as
// the models' templates write them are allowed by the masks, however they are divided into tokens.
#include "coordinator/serving/api/call_sequence.h"

#include <fmt/format.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/one_answer.h"
#include "tests/unit/coordinator/serving/api/call_walks.h"
#include "tests/unit/coordinator/text/grammar/random_schema.h"
#include "tests/unit/coordinator/text/grammar/schema_validator.h"

namespace numoe::serving {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What a client reads from `said`.
ordered_json ChoiceOf(const CallModel& model, const GenerationRequest& request,
                      absl::Span<const TokenId> said, engine::FinishReason finish,
                      const std::vector<TokenId>& prompt) {
  const std::vector<TokenId> eos = {model.end};
  OneAnswer answer(
      request,
      {.tokenizer = *model.tokenizer, .format = model.format, .eos_token_ids = eos, .prompt = prompt});
  answer.Take({.tokens = {said.begin(), said.end()}, .finish = finish, .error = {}});
  return ordered_json::parse(answer.Whole()).at("choices")[0];
}

const ordered_json* FunctionCalled(const ordered_json& tools, const std::string& name) {
  for (const ordered_json& tool : tools)
    if (tool["function"]["name"] == name) return &tool["function"];
  return nullptr;
}

// Checks that every call has a declared tool, the right number and arguments that match.
void CheckCalls(const GenerationRequest& request, const ordered_json& choice, const std::string& said) {
  const ordered_json calls = choice["message"].value("tool_calls", ordered_json::array());
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string name = calls[i]["function"]["name"], arguments = calls[i]["function"]["arguments"];
    EXPECT_EQ(calls[i]["id"], fmt::format("functions.{}:{}", name, i));
    const ordered_json* function = FunctionCalled(request.conversation->tools, name);
    ASSERT_NE(function, nullptr) << name << " in " << said;
    const json value = json::parse(arguments, nullptr, false);
    ASSERT_TRUE(value.is_object()) << arguments << " in " << said;
    if (!request.conversation->calls.demanded() && !function->value("strict", false)) continue;
    const json schema = json::parse(function->value("parameters", ordered_json::object()).dump());
    EXPECT_TRUE(text::IsValid(schema, schema, value)) << arguments << "\n" << schema;
  }
}

struct Tally {
  size_t calls = 0, reasoning = 0, contents = 0, several = 0;
};

void CheckAnswer(const CallModel& model, const GenerationRequest& request, const ordered_json& choice,
                 const std::vector<TokenId>& said, Tally& tally) {
  const std::string text = model.tokenizer->Decode(said, false);
  CheckCalls(request, choice, text);
  const ordered_json& message = choice["message"];
  const size_t calls = message.value("tool_calls", ordered_json::array()).size();
  switch (request.conversation->calls.choice) {
    case CallPolicy::Choice::kRequired:
      EXPECT_GE(calls, 1u) << text;
      EXPECT_TRUE(message["content"].is_null()) << text;
      EXPECT_EQ(choice["finish_reason"], "tool_calls");
      break;
    case CallPolicy::Choice::kNamed:
      EXPECT_EQ(calls, 1u) << text;
      EXPECT_TRUE(message["content"].is_null()) << text;
      EXPECT_EQ(choice["finish_reason"], "stop");
      break;
    case CallPolicy::Choice::kAuto:
      EXPECT_EQ(choice["finish_reason"], calls > 0 ? "tool_calls" : "stop");
      break;
    case CallPolicy::Choice::kNone:
      FAIL();
  }
  if (!request.conversation->calls.parallel) {
    EXPECT_LE(calls, 1u) << text;
  }
  tally.calls += calls;
  tally.several += calls > 1;
  tally.reasoning += message.contains("reasoning");
  tally.contents += !message["content"].is_null();
}

ordered_json RandomChoice(const ordered_json& tools, std::mt19937_64& random) {
  const ordered_json one = {{"type", "function"},
                            {"function", {{"name", tools[random() % tools.size()]["function"]["name"]}}}};
  switch (random() % 6) {
    case 0:
    case 1:
      return "required";
    case 2:
      return one;
    case 3:
      return {{"type", "allowed_tools"},
              {"allowed_tools", {{"mode", random() % 2 == 0 ? "auto" : "required"}, {"tools", {one}}}}};
    default:
      return "auto";
  }
}

void CheckWalks(const CallModel& model, int runs, uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  for (int run = 0; run < runs && !::testing::Test::HasFailure(); ++run) {
    const ordered_json tools = RandomTools(random);
    const GenerationRequest request = ChatRequest(tools, RandomChoice(tools, random), random() % 3 != 0);
    const std::optional<text::Mark> mark = random() % 3 == 0   ? text::Mark::kThinkBegin
                                           : random() % 2 == 0 ? text::Mark::kThinkEnd
                                                               : std::optional<text::Mark>();
    const std::vector<TokenId> prompt = {mark ? *model.Find(*mark) : model.end};
    const auto constraint = Constrained(model, request, mark);
    ASSERT_NE(constraint, nullptr);
    const std::vector<TokenId> said = RandomAnswer(model, *constraint, random);
    ASSERT_FALSE(said.empty());
    CheckAnswer(model, request, ChoiceOf(model, request, said, engine::FinishReason::kStop, prompt), said,
                tally);
    const size_t cut = random() % said.size();
    const ordered_json half =
        ChoiceOf(model, request, {said.data(), cut}, engine::FinishReason::kLength, prompt);
    if (request.conversation->calls.parallel) {
      EXPECT_EQ(half["finish_reason"], "length") << "max_tokens ended it";
    }
  }
}

class CallSequenceTest : public ::testing::TestWithParam<size_t> {
 protected:
  const CallModel& model() const { return SmallCallModels()[GetParam()]; }
};

TEST_P(CallSequenceTest, SampledCallsAreParsedAndMatchTheirSchemas) {
  Tally tally;
  CheckWalks(model(), 200, 11, tally);
  EXPECT_GT(tally.calls, 200u) << "the walks must contain what is tested";
  EXPECT_GT(tally.several, 20u);
  EXPECT_GT(tally.reasoning, 20u);
  EXPECT_GT(tally.contents, 10u);
}

// A section of `calls` (name and arguments) as the model's template writes it.
std::string Written(const CallModel& model, const std::vector<std::pair<std::string, std::string>>& calls,
                    bool fenced) {
  const auto mark = [&](text::Mark m) {
    const std::optional<TokenId> token = model.Find(m);
    return token ? std::string(model.tokenizer->TokenBytes(*token)) : "";
  };
  std::string text = mark(text::Mark::kSectionBegin);
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& [name, arguments] = calls[i];
    if (i > 0 && (fenced || model.format.tools == text::ToolSyntax::kHermes)) text += "\n";
    text += mark(text::Mark::kCallBegin);
    if (model.format.tools == text::ToolSyntax::kKimi) {
      text += fmt::format("functions.{}:{}{}{}", name, i, mark(text::Mark::kArguments), arguments);
    } else if (model.format.tools == text::ToolSyntax::kHermes) {
      text += fmt::format("\n{{\"name\": \"{}\", \"arguments\": {}}}\n", name, arguments);
    } else if (fenced) {
      text += fmt::format("function{}{}\n```json\n{}\n```", mark(text::Mark::kArguments), name, arguments);
    } else {
      text += name + mark(text::Mark::kArguments) + arguments;
    }
    text += mark(text::Mark::kCallEnd);
  }
  return text + mark(text::Mark::kSectionEnd);
}

TEST_P(CallSequenceTest, CallsAsTemplatesWriteThemAreAllowedInAnySplit) {
  std::mt19937_64 random(5);
  for (int run = 0; run < 60; ++run) {
    std::vector<std::pair<std::string, std::string>> calls;
    ordered_json tools = ordered_json::array();
    for (uint64_t seed = random(); tools.size() < 3; ++seed) {
      text::RandomSchema schema(seed);
      if (schema.schema().value("type", ordered_json()) != "object") continue;
      const std::string name = fmt::format("tool_{}", tools.size());
      tools.push_back({{"function", {{"name", name}, {"parameters", schema.schema()}}}});
      calls.emplace_back(name, schema.Document());
    }
    std::shuffle(calls.begin(), calls.end(), random);
    const auto constraint = Constrained(model(), ChatRequest(tools, "required"));
    ASSERT_NE(constraint, nullptr);
    std::string text = random() % 2 == 0 ? "<think>hm</think>" : "";
    if (!text.empty() && model().format.tools == text::ToolSyntax::kHermes) text += "\n\n";
    text += Written(model(), calls, model().format.tools == text::ToolSyntax::kDeepSeek && random() % 2 == 0);
    ASSERT_TRUE(Says(model(), *constraint, text, random)) << text;
  }
}

TEST_P(CallSequenceTest, OtherCallsAreNotAllowed) {
  const ordered_json tools = ordered_json::parse(R"([
    {"function": {"name": "f", "parameters": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}},
    {"function": {"name": "g"}}])");
  std::mt19937_64 random(5);
  const auto says = [&](const std::string& name, const std::string& arguments) {
    return Says(model(), *Constrained(model(), ChatRequest(tools, "required")),
                Written(model(), {{name, arguments}}, random() % 2 == 0), random);
  };
  EXPECT_TRUE(says("f", R"({"x": 1})") && says("g", "{}"));
  for (const auto& [name, arguments] :
       std::vector<std::pair<std::string, std::string>>{{"h", "{}"},
                                                        {"f", "{}"},
                                                        {"f", R"({"x": "1"})"},
                                                        {"f", R"({"x": 1)"},
                                                        {"f", R"({"x": 1}})"},
                                                        {"g", R"({"x": 1})"},
                                                        {"g", ""},
                                                        {"g", "null"},
                                                        {"", "{}"},
                                                        {"ff", R"({"x": 1})"}})
    EXPECT_FALSE(says(name, arguments)) << name << " " << arguments;
  EXPECT_FALSE(Says(model(), *Constrained(model(), ChatRequest(tools, "required")),
                    Written(model(), {}, false), random))
      << "there is no call";
}

INSTANTIATE_TEST_SUITE_P(Formats, CallSequenceTest, ::testing::Range(size_t{0}, size_t{3}),
                         [](const auto& format) { return SmallCallModels()[format.param].name; });

TEST(RealCallSequenceTest, Nano) {
  Tally tally;
  CheckWalks(LoadCallModel("deploy/models/nano", "<|im_end|>"), 150, 3, tally);
  EXPECT_GT(tally.calls, 150u);
}

TEST(RealCallSequenceTest, Kimi) {
  if (!std::filesystem::exists("../shared/data/kimi/tiktoken.model"))
    GTEST_SKIP() << "Kimi's tokeniser is not in ../shared/data/kimi";
  Tally tally;
  CheckWalks(LoadCallModel("../shared/data/kimi", "<|im_end|>"), 25, 3, tally);
  EXPECT_GT(tally.calls, 20u);
}

}  // namespace
}  // namespace numoe::serving
