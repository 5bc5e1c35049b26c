#include "coordinator/serving/api/openai_request.h"

#include "coordinator/net/http/http_limits.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/structure_fields.h"
#include "coordinator/text/chat/chat_messages.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr size_t kCacheSaltBytesMax = 1024;
constexpr int kCompletionTokensDefault = 16;  // OpenAI's default for /v1/completions
constexpr const char* kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

void ReadStream(JsonFields& in, GenerationRequest& out) {
  in.Bool("stream", out.stream);
  const ordered_json* options = in.Object("stream_options");
  if (options == nullptr) return;
  JsonFields inner(*options, "stream_options.");
  inner.Bool("include_usage", out.include_usage);
  inner.Bool("continuous_usage_stats", out.continuous_usage);
  in.Take(inner);
}

void ReadPromptLogprobs(JsonFields& in, GenerationRequest& out) {
  if (in.Get("prompt_logprobs") == nullptr) return;
  int top = 0;
  in.Number("prompt_logprobs", 0, execution::kLogprobsMax, top);
  if (out.stream) in.Fail("prompt_logprobs", "no stream: the prompt's are given with the whole answer");
  out.sampling.prompt_logprobs = top;
}

// Chat: a switch, and how many alternatives.
void ReadChatLogprobs(JsonFields& in, GenerationRequest& out) {
  bool wanted = false;
  int top = 0;
  in.Bool("logprobs", wanted);
  in.Number("top_logprobs", 0, execution::kLogprobsMax, top);
  if (top > 0 && !wanted) in.Fail("top_logprobs", "logprobs to be true beside it");
  if (wanted) out.sampling.logprobs = top;
}

void ReadTextLogprobs(JsonFields& in, GenerationRequest& out) {
  if (in.Get("logprobs") == nullptr) return;
  int top = 0;
  in.Number("logprobs", 0, execution::kLogprobsMax, top);
  out.sampling.logprobs = top;
  if (out.echo) out.sampling.prompt_logprobs = top;
}

void ReadThinking(JsonFields& in, GenerationRequest& out) {
  if (const ordered_json* given = in.Object("chat_template_kwargs"); given != nullptr)
    out.conversation->template_kwargs = *given;
  ReadEffort(in, "reasoning_effort", *out.conversation);
  in.Bool("include_reasoning", out.include_reasoning);
  in.Bool("separate_reasoning", out.include_reasoning);
}

}  // namespace

void SetThinking(bool on, ordered_json& template_kwargs) {
  if (template_kwargs.is_null()) template_kwargs = ordered_json::object();
  for (const char* name : {"thinking", "enable_thinking"}) {
    if (!template_kwargs.contains(name)) template_kwargs[name] = on;
  }
}

void ReadEffort(JsonFields& in, const char* name, Conversation& out) {
  std::string effort;
  in.String(name, effort);
  if (effort.empty()) return;
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    return in.Fail(name,
                   fmt::format("one of {}, found \"{}\"", fmt::join(kEfforts, ", "), effort.substr(0, 40)));
  }
  SetThinking(effort != "none", out.template_kwargs);
  if (!out.template_kwargs.contains("reasoning_effort")) out.template_kwargs["reasoning_effort"] = effort;
}

void ReadCalls(JsonFields& in, const ordered_json* choice, bool parallel, Conversation& out) {
  auto calls =
      ReadCallPolicy({.tools = out.tools, .choice = choice, .messages = out.messages, .parallel = parallel});
  if (const auto* error = std::get_if<net::ApiError>(&calls)) return in.Fail(*error);
  out.calls = std::get<CallPolicy>(std::move(calls));
  // The model cannot call what it is not shown.
  if (out.calls.choice == CallPolicy::Choice::kNone) out.tools = nullptr;
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
}

void ReadPrompts(JsonFields& in, const char* name, GenerationRequest& out) {
  constexpr char kExpected[] = "a string, a list of token ids, or a list of either, found ";
  const ordered_json* prompt = in.Get(name);
  if (prompt == nullptr) return in.Fail(name, std::string(kExpected) + "nothing");
  const bool several = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  const ordered_json list = several ? *prompt : ordered_json::array({*prompt});
  if (list.size() > limits::kChoicesMax)
    return in.Fail(name, fmt::format("at most {} prompts, found {}", limits::kChoicesMax, list.size()));
  for (const ordered_json& one : list) {
    Prompt read;
    if (one.is_string()) {
      read.text = one.get<std::string>();
    } else if (!JsonFields::ReadTokens(one, read.tokens)) {
      return in.Fail(name, kExpected + JsonFields::Short(one));
    }
    out.prompts.push_back(std::move(read));
  }
}

void ReadConversation(JsonFields& in, GenerationRequest& out) {
  Conversation& c = out.conversation.emplace();
  const ordered_json* messages = in.Get("messages");
  if (messages == nullptr) return in.Fail("messages", "a list of messages, found nothing");
  absl::StatusOr<ordered_json> normalised = text::NormaliseMessages(*messages);
  if (!normalised.ok())
    return in.Fail("messages", "well-formed messages: " + std::string(normalised.status().message()));
  c.messages = *std::move(normalised);
  if (const ordered_json* tools = in.Array("tools"); tools != nullptr && !tools->empty()) c.tools = *tools;
  bool parallel = true;
  in.Bool("parallel_tool_calls", parallel);
  ReadCalls(in, in.Get("tool_choice"), parallel, c);
  in.Bool("continue_final_message", c.continue_final_message);
  c.add_generation_prompt = !c.continue_final_message;
  in.Bool("add_generation_prompt", c.add_generation_prompt);
  if (c.continue_final_message && c.add_generation_prompt)
    in.Fail("continue_final_message", "add_generation_prompt not to be true as well");
  ReadThinking(in, out);
}

namespace {

GenerationRequest ReadWhatBothHave(JsonFields& in, const GenerationDefaults& defaults) {
  GenerationRequest out;
  SetSamplingDefaults(defaults, out);
  ReadCommon(in, out);
  ReadStream(in, out);
  ReadSampling(in, out);
  return out;
}

}  // namespace

std::variant<GenerationRequest, net::ApiError> ReadChatRequest(const ordered_json& body,
                                                               const GenerationDefaults& defaults) {
  JsonFields in(body);
  GenerationRequest out = ReadWhatBothHave(in, defaults);
  out.sampling.max_tokens = std::nullopt;
  in.Number("max_tokens", 1, INT32_MAX, out.sampling.max_tokens);
  in.Number("max_completion_tokens", 1, INT32_MAX, out.sampling.max_tokens);
  ReadChatLogprobs(in, out);
  ReadPromptLogprobs(in, out);
  ReadStructure(in, out);
  ReadConversation(in, out);
  if (in.error()) return *in.error();
  return out;
}

std::variant<GenerationRequest, net::ApiError> ReadTextRequest(const ordered_json& body,
                                                               const GenerationDefaults& defaults) {
  JsonFields in(body);
  GenerationRequest out = ReadWhatBothHave(in, defaults);
  out.sampling.max_tokens = kCompletionTokensDefault;
  in.Bool("echo", out.echo);
  in.Number("max_tokens", out.echo ? 0 : 1, INT32_MAX, out.sampling.max_tokens);  // 0: the prompt's alone
  ReadTextLogprobs(in, out);
  ReadPromptLogprobs(in, out);
  ReadStructure(in, out);
  ReadPrompts(in, "prompt", out);
  std::string suffix;
  in.String("suffix", suffix);
  if (!suffix.empty()) in.Fail("suffix", "nothing: text is not filled in between here");
  if (out.stream && out.best_of > out.n)
    in.Fail("best_of", "n in a stream: which are best is known at the end");
  if (in.error()) return *in.error();
  return out;
}

}  // namespace numoe::serving
