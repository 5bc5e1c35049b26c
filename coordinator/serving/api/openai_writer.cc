#include "coordinator/serving/api/openai_writer.h"

#include <utility>

#include "common/base/check.h"
#include "coordinator/serving/api/logprob_json.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Kind = text::AnswerDelta::Kind;

ordered_json Base(const AnswerContext& context, const char* object) {
  return {{"id", context.id},
          {"object", object},
          {"created", context.created},
          {"model", context.model},
          {"system_fingerprint", context.fingerprint}};
}

void AddReasoning(const std::string& text, ordered_json& object) {
  object["reasoning_content"] = text;
  object["reasoning"] = text;
}

void AddDelta(const text::AnswerDelta& delta, ordered_json& object) {
  switch (delta.kind) {
    case Kind::kReasoning:
      AddReasoning(delta.text, object);
      break;
    case Kind::kContent:
      object["content"] = delta.text;
      break;
    case Kind::kCallBegin:
      object["tool_calls"] = {{{"index", delta.call},
                               {"id", delta.id},
                               {"type", "function"},
                               {"function", {{"name", delta.name}, {"arguments", ""}}}}};
      break;
    case Kind::kArguments:
      object["tool_calls"] = {{{"index", delta.call}, {"function", {{"arguments", delta.text}}}}};
      break;
  }
}

ordered_json Message(const text::ParsedAnswer& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
  if (answer.content.empty() && !answer.calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning.empty()) AddReasoning(answer.reasoning, message);
  for (const text::ToolCall& call : answer.calls) {
    message["tool_calls"].push_back({{"id", call.id},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

ordered_json FinishReasonOf(const Choice& choice) {
  return choice.done() ? ordered_json(choice.finish_reason()) : ordered_json(nullptr);
}

ordered_json StopReasonOf(const Choice& choice) {
  if (const auto* token = std::get_if<TokenId>(&choice.stop_reason())) return *token;
  if (const auto* text = std::get_if<std::string>(&choice.stop_reason())) return *text;
  return nullptr;
}

// Adds what belongs to the prompt; called for one of several choices with the same prompt.
void AddPromptDetails(const Choice& choice, const GenerationRequest& request, const AnswerContext& context,
                      ordered_json& object) {
  if (request.sampling.prompt_logprobs &&
      !request.echo)  // with echo, the choices' log-probabilities contain them
    object["prompt_logprobs"] = PromptLogprobs(choice.prompt_logprobs(), context.tokenizer);
  if (request.return_token_ids)
    object["prompt_token_ids"] = context.prompts[static_cast<size_t>(choice.prompt_index())];
}

void AddStreamUsage(const GenerationRequest& request, const Choice& choice, bool reasoning,
                    ordered_json& chunk) {
  if (request.continuous_usage) {
    chunk["usage"] = OpenAiUsage(CountUsage(choice), reasoning);
  } else if (request.include_usage) {
    chunk["usage"] = nullptr;
  }
}

std::string UsageEvent(const AnswerContext& context, const char* object, const Choices& choices,
                       bool reasoning) {
  ordered_json chunk = Base(context, object);
  chunk["choices"] = ordered_json::array();
  chunk["usage"] = OpenAiUsage(CountUsage(choices), reasoning);
  return SseEvent(chunk);
}

}  // namespace

ordered_json OpenAiUsage(const TokenUsage& usage, bool reasoning) {
  ordered_json json = {{"prompt_tokens", usage.prompt},
                       {"completion_tokens", usage.completion},
                       {"total_tokens", usage.prompt + usage.completion},
                       {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
  if (reasoning) json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning}};
  return json;
}

ChatWriter::ChatWriter(const GenerationRequest& request, AnswerContext context)
    : request_(request), context_(std::move(context)) {}

std::string ChatWriter::Events(const Choice& choice, const ChoiceStep& step) {
  const bool silent = !step.says_something() && !choice.done();
  // Reasoning that is not shown may take minutes, so the stream begins before the first visible token.
  if (silent && request_.include_reasoning) return "";
  std::string events;
  // The role has its own chunk, as clients expect.
  if (begun_.insert(choice.index()).second) {
    ordered_json chunk = Chunk(choice, {{"role", "assistant"}, {"content", ""}}, nullptr);
    if (request_.return_token_ids)
      chunk["prompt_token_ids"] = context_.prompts[static_cast<size_t>(choice.prompt_index())];
    events = SseEvent(chunk);
  }
  if (silent) return events;
  if (step.deltas.empty()) return events + SseEvent(Chunk(choice, ordered_json::object(), &step));
  for (const text::AnswerDelta& delta : step.deltas) {
    ordered_json object = ordered_json::object();
    AddDelta(delta, object);
    events += SseEvent(Chunk(choice, std::move(object), &delta == &step.deltas.back() ? &step : nullptr));
  }
  return events;
}

ordered_json ChatWriter::Chunk(const Choice& choice, ordered_json delta, const ChoiceStep* ended) const {
  ordered_json json = {{"index", choice.index()},
                       {"delta", std::move(delta)},
                       {"logprobs", nullptr},
                       {"finish_reason", nullptr}};
  if (ended != nullptr) {
    if (request_.sampling.logprobs)
      json["logprobs"] =
          ChatLogprobs(ended->logprobs, ended->parts, context_.tokenizer, request_.tokens_as_ids);
    json["finish_reason"] = FinishReasonOf(choice);
    if (choice.done()) json["stop_reason"] = StopReasonOf(choice);
    if (request_.return_token_ids) json["token_ids"] = ended->tokens;
  }
  ordered_json chunk = Base(context_, "chat.completion.chunk");
  chunk["choices"] = ordered_json::array({json});
  AddStreamUsage(request_, choice, true, chunk);
  return chunk;
}

std::string ChatWriter::End(const Choices& choices) {
  const bool usage = request_.include_usage;
  return (usage ? UsageEvent(context_, "chat.completion.chunk", choices, true) : "") + kSseDone;
}

std::string ChatWriter::Whole(const Choices& choices) {
  NUMOE_CHECK(!choices.empty());
  ordered_json answer = Base(context_, "chat.completion");
  answer["choices"] = ordered_json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = *choices[i];
    ordered_json json = {{"index", i}, {"message", Message(choice.answer())}, {"logprobs", nullptr}};
    if (request_.sampling.logprobs)
      json["logprobs"] =
          ChatLogprobs(choice.logprobs(), choice.parts(), context_.tokenizer, request_.tokens_as_ids);
    json["finish_reason"] = FinishReasonOf(choice);
    json["stop_reason"] = StopReasonOf(choice);
    if (request_.return_token_ids) json["token_ids"] = choice.tokens();
    answer["choices"].push_back(std::move(json));
  }
  answer["usage"] = OpenAiUsage(CountUsage(choices), true);
  AddPromptDetails(*choices[0], request_, context_, answer);
  return DumpJson(answer);
}

TextWriter::TextWriter(const GenerationRequest& request, AnswerContext context)
    : request_(request),
      context_(std::move(context)),
      offsets_(context_.prompts.size() * static_cast<size_t>(request.best_of)) {}

ordered_json TextWriter::ChoiceJson(const Choice& choice, const std::string& text,
                                    const std::vector<TokenId>& tokens,
                                    const std::vector<execution::TokenLogprobs>& logprobs, int& offset) {
  ordered_json json = {{"index", choice.index()}, {"text", text}, {"logprobs", nullptr}};
  if (request_.sampling.logprobs)
    json["logprobs"] = TextLogprobs(logprobs, context_.tokenizer, request_.tokens_as_ids, offset);
  json["finish_reason"] = FinishReasonOf(choice);
  if (choice.done()) json["stop_reason"] = StopReasonOf(choice);
  if (request_.return_token_ids) json["token_ids"] = tokens;
  return json;
}

std::string TextWriter::Events(const Choice& choice, const ChoiceStep& step) {
  if (!step.says_something() && !choice.done()) return "";
  std::string text;
  for (const text::AnswerDelta& delta : step.deltas) text += delta.text;
  ordered_json chunk = Base(context_, "text_completion");
  NUMOE_CHECK_LT(static_cast<size_t>(choice.index()), offsets_.size());
  int& offset = offsets_[static_cast<size_t>(choice.index())];
  ordered_json json = ChoiceJson(choice, text, step.tokens, step.logprobs, offset);
  if (begun_.insert(choice.index()).second && request_.return_token_ids)
    json["prompt_token_ids"] = context_.prompts[static_cast<size_t>(choice.prompt_index())];
  chunk["choices"] = ordered_json::array({std::move(json)});
  AddStreamUsage(request_, choice, false, chunk);
  return SseEvent(chunk);
}

std::string TextWriter::End(const Choices& choices) {
  const bool usage = request_.include_usage;
  return (usage ? UsageEvent(context_, "text_completion", choices, false) : "") + kSseDone;
}

std::string TextWriter::Whole(const Choices& choices) {
  ordered_json answer = Base(context_, "text_completion");
  answer["choices"] = ordered_json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = *choices[i];
    int offset = 0;
    ordered_json json =
        ChoiceJson(choice, choice.answer().content, choice.tokens(), choice.logprobs(), offset);
    json["index"] = i;  // among the returned choices
    AddPromptDetails(choice, request_, context_, json);
    answer["choices"].push_back(std::move(json));
  }
  answer["usage"] = OpenAiUsage(CountUsage(choices), false);
  return DumpJson(answer);
}

}  // namespace numoe::serving
