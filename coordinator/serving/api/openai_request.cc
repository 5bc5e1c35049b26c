#include "coordinator/serving/api/openai_request.h"

#include <string_view>
#include <unordered_set>

#include "common/base/check.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/conversation_extras.h"
#include "coordinator/serving/api/ignored_fields.h"
#include "coordinator/serving/api/promise_fields.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/structure_fields.h"
#include "coordinator/serving/api/thinking_fields.h"
#include "coordinator/text/chat/chat_messages.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr size_t kCacheSaltBytesMax = 1024;
constexpr int kCompletionTokensDefault = 16;  // OpenAI's default for /v1/completions

void ReadStream(JsonFields& in, GenerationRequest& out) {
  in.Bool("stream", out.stream);
  const ordered_json* options = in.Object("stream_options");
  if (options == nullptr) return;
  if (!out.stream)
    return in.Fail("stream_options",
                   "\"stream\": true in the same request, found a request without a stream");
  JsonFields inner(*options, "stream_options.");
  bool continuous = false;
  inner.Bool("include_usage", out.include_usage);
  inner.Bool("continuous_usage_stats", continuous);
  in.Take(inner);
  out.continuous_usage = out.include_usage && continuous;
}

void ReadPromptLogprobs(JsonFields& in, GenerationRequest& out) {
  if (in.Get("prompt_logprobs") == nullptr) return;
  int top = 0;
  in.Number("prompt_logprobs", 0, execution::kLogprobsMax, top);
  if (out.stream)
    in.Fail("prompt_logprobs", "a request without a stream, because only a complete answer has them");
  out.sampling.prompt_logprobs = top;
}

// For chat: a switch, and the number of alternatives.
void ReadChatLogprobs(JsonFields& in, GenerationRequest& out) {
  bool wanted = false;
  int top = 0;
  in.Bool("logprobs", wanted);
  in.Number("top_logprobs", 0, execution::kLogprobsMax, top);
  if (top > 0 && !wanted) in.Fail("top_logprobs", "\"logprobs\": true in the same request");
  if (wanted) out.sampling.logprobs = top;
}

void ReadTextLogprobs(JsonFields& in, GenerationRequest& out) {
  if (in.Get("logprobs") == nullptr) return;
  int top = 0;
  in.Number("logprobs", 0, execution::kLogprobsMax, top);
  out.sampling.logprobs = top;
  if (out.echo) out.sampling.prompt_logprobs = top;
}

// Reads SGLang's switch, and llama.cpp's field with the same meaning.
void ReadReasoningFormat(JsonFields& in, GenerationRequest& out) {
  in.Bool("separate_reasoning", out.separate_reasoning);
  std::string format;
  in.String("reasoning_format", format);
  if (format.empty() || format == "auto" || format == "deepseek") return;
  if (format != "none") {
    return in.Fail("reasoning_format",
                   "\"auto\", \"deepseek\" (in its own field) or \"none\" (in the content), found " +
                       JsonFields::Short(format));
  }
  out.separate_reasoning = false;
}

// Errors of messages begin with their place: "messages[2].content: expected a string".
void FailAtPlace(JsonFields& in, const std::string& error) {
  constexpr std::string_view kExpected = ": expected ";
  const size_t place = error.find(kExpected);
  NUMOE_CHECK(place != std::string::npos) << error;
  in.Fail(error.substr(0, place), error.substr(place + kExpected.size()));
}

// A tool result must answer a call of the conversation, as in OpenAI's API; a call needs no result, as in
// vLLM.
void CheckToolResults(JsonFields& in, const ordered_json& messages) {
  std::unordered_set<std::string> calls;
  for (size_t i = 0; i < messages.size(); ++i) {
    for (const ordered_json& call : messages[i].value("tool_calls", ordered_json::array())) {
      const auto id = call.find("id");
      if (id != call.end() && id->is_string()) calls.insert(id->get<std::string>());
    }
    if (messages[i]["role"] != "tool") continue;
    const ordered_json id = messages[i].value("tool_call_id", ordered_json());
    if (id.is_string() && calls.count(id.get_ref<const std::string&>()) != 0) continue;
    in.Fail(fmt::format("messages[{}].tool_call_id", i),
            "the id of a call in tool_calls of an earlier assistant message, found " + JsonFields::Short(id));
  }
}

}  // namespace

void ReadCalls(JsonFields& in, const DeclarationPlaces& places, const ordered_json* choice, bool parallel,
               Conversation& out) {
  if (!out.tools.is_null()) {
    if (auto error = CheckDeclaredFunctions(places, out.tools)) return in.Fail(*std::move(error));
  }
  auto calls =
      ReadCallPolicy({.tools = out.tools, .choice = choice, .messages = out.messages, .parallel = parallel});
  if (const auto* error = std::get_if<net::ApiError>(&calls)) return in.Fail(*error);
  out.calls = std::get<CallPolicy>(std::move(calls));
  // Tools that must not be called are not shown to the model.
  if (out.calls.choice == CallPolicy::Choice::kNone) out.tools = nullptr;
}

void RefuseInnerSampling(JsonFields& in) {
  if (const ordered_json* inner = in.Get("sampling_params"); inner != nullptr && !inner->empty())
    in.Fail("sampling_params",
            "its fields in the request itself, as in this API, found " + JsonFields::Short(*inner));
}

void ReadCommon(JsonFields& in, GenerationRequest& out) {
  in.String("model", out.model);
  in.String("cache_salt", out.cache_salt);
  if (out.cache_salt.size() > kCacheSaltBytesMax)
    in.Fail("cache_salt", fmt::format("at most {} bytes", kCacheSaltBytesMax));
  in.Number("priority", INT32_MIN, INT32_MAX, out.priority);
  for (const char* name : {"request_id", "rid"}) in.String(name, out.request_id);
  if (out.request_id.size() > limits::kHttpRequestIdBytesMax)
    in.Fail("request_id", fmt::format("at most {} bytes", limits::kHttpRequestIdBytesMax));
  if (in.Get("timeout") != nullptr) {
    out.timeout_s = 0;
    in.Number("timeout", 0.001, 1e6, *out.timeout_s);
  }
  in.Bool("return_token_ids", out.return_token_ids);
  in.Bool("return_tokens_as_token_ids", out.tokens_as_ids);
}

void ReadPrompts(JsonFields& in, const char* name, GenerationRequest& out) {
  in.Bool("add_special_tokens", out.add_special_tokens);
  constexpr char kExpected[] = "a string, a list of token ids, or a list of either, found ";
  out.prompt_param = name;
  const ordered_json* prompt = in.Get(name);
  if (prompt == nullptr) return in.Fail(name, std::string(kExpected) + "nothing");
  const bool several = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  const ordered_json list = several ? *prompt : ordered_json::array({*prompt});
  if (list.size() > limits::kChoicesMax)
    return in.Fail(name, fmt::format("at most {} prompts, found {}", limits::kChoicesMax, list.size()));
  for (size_t i = 0; i < list.size(); ++i) {
    const ordered_json& one = list[i];
    Prompt read;
    if (one.is_string()) {
      read.text = one.get<std::string>();
    } else if (!JsonFields::ReadTokens(one, read.tokens)) {
      return in.Fail(several ? fmt::format("{}[{}]", name, i) : name, kExpected + JsonFields::Short(one));
    }
    out.prompts.push_back(std::move(read));
  }
}

void ReadConversation(JsonFields& in, GenerationRequest& out) {
  Conversation& c = out.conversation.emplace();
  out.prompt_param = "messages";
  const ordered_json* messages = in.Get("messages");
  if (messages == nullptr) return in.Fail("messages", "a list of messages, found nothing");
  absl::StatusOr<ordered_json> normalised = text::NormaliseMessages(*messages);
  if (!normalised.ok()) return FailAtPlace(in, std::string(normalised.status().message()));
  c.messages = *std::move(normalised);
  CheckToolResults(in, c.messages);
  if (const ordered_json* tools = in.Array("tools"); tools != nullptr && !tools->empty()) c.tools = *tools;
  bool parallel = true;
  in.Bool("parallel_tool_calls", parallel);
  ReadCalls(in, {.function = ".function", .parameters = ".parameters"}, in.Get("tool_choice"), parallel, c);
  bool parse = true;
  in.Bool("parse_tool_calls", parse);
  if (!parse)
    in.Fail("parse_tool_calls", "true: calls are always parsed if tools are declared; leave out the tools");
  in.Bool("continue_final_message", c.continue_final_message);
  ReadOpenMessage(in, *messages, c);
  c.add_generation_prompt = !c.continue_final_message;
  in.Bool("add_generation_prompt", c.add_generation_prompt);
  if (c.continue_final_message && c.add_generation_prompt)
    in.Fail("continue_final_message", "add_generation_prompt to be false, because both exclude each other");
  bool add_special = false;
  in.Bool("add_special_tokens", add_special);
  if (add_special)
    in.Fail("add_special_tokens", "false, because the chat template writes the first token itself");
  ReadThinking(in, out);
  in.Bool("include_reasoning", out.include_reasoning);
  ReadReasoningFormat(in, out);
}

namespace {

GenerationRequest ReadWhatBothHave(JsonFields& in, const GenerationDefaults& defaults) {
  GenerationRequest out;
  SetSamplingDefaults(defaults, out);
  RefuseInnerSampling(in);
  ReadCommon(in, out);
  ReadStream(in, out);
  ReadSampling(in, out);
  if (out.stream && out.best_of > out.n)
    in.Fail("best_of", "n in a stream, because the best answers are known only at the end");
  return out;
}

}  // namespace

std::variant<GenerationRequest, net::ApiError> ReadChatRequest(const ordered_json& body,
                                                               const GenerationDefaults& defaults) {
  JsonFields in(body);
  GenerationRequest out = ReadWhatBothHave(in, defaults);
  out.sampling.max_tokens = std::nullopt;
  ReadPredict(in, out);
  in.Number("max_tokens", 1, INT32_MAX, out.sampling.max_tokens);
  in.Number("max_completion_tokens", 1, INT32_MAX, out.sampling.max_tokens);
  in.Misplaced("max_output_tokens", "max_completion_tokens");
  in.Misplaced("stop_sequences", "stop");
  ReadChatLogprobs(in, out);
  ReadPromptLogprobs(in, out);
  ReadStructure(in, out);
  ReadConversation(in, out);
  ReadConversationExtras(in, out);
  if (in.error()) return *in.error();
  out.ignored_fields = IgnoredFields(in);
  return out;
}

std::variant<GenerationRequest, net::ApiError> ReadTextRequest(const ordered_json& body,
                                                               const GenerationDefaults& defaults) {
  JsonFields in(body);
  GenerationRequest out = ReadWhatBothHave(in, defaults);
  out.sampling.max_tokens = kCompletionTokensDefault;
  in.Bool("echo", out.echo);
  ReadPredict(in, out);
  in.Number("max_tokens", out.echo ? 0 : 1, INT32_MAX, out.sampling.max_tokens);  // 0: only the prompt
  ReadTextLogprobs(in, out);
  ReadPromptLogprobs(in, out);
  ReadStructure(in, out);
  ReadPrompts(in, "prompt", out);
  std::string suffix;
  in.String("suffix", suffix);
  if (!suffix.empty())
    in.Fail("suffix", "no value, because this server does not fill in text before a suffix");
  in.Misplaced("max_completion_tokens", "max_tokens");
  in.Misplaced("max_output_tokens", "max_tokens");
  in.Misplaced("stop_sequences", "stop");
  if (in.error()) return *in.error();
  out.ignored_fields = IgnoredFields(in);
  return out;
}

}  // namespace numoe::serving
