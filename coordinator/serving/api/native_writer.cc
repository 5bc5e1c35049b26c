#include "coordinator/serving/api/native_writer.h"

#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

// JSON has no infinity; this value replaces it.
constexpr double kNoLogprob = -9999.0;

}  // namespace

NativeWriter::NativeWriter(const GenerationRequest& request, AnswerContext context)
    : request_(request), context_(std::move(context)) {}

ordered_json NativeWriter::FinishJson(const Choice& choice) const {
  if (!choice.done()) return nullptr;
  if (choice.finish_reason() == "length") {
    const auto* reason = std::get_if<std::string>(&choice.stop_reason());
    if (reason != nullptr && *reason == kTimedOut)
      return {{"type", "length"}, {"length", choice.completion_tokens()}, {"reason", kTimedOut}};
    NUMOE_CHECK(request_.sampling.max_tokens.has_value()) << "ReadNativeRequest sets a default";
    return {{"type", "length"}, {"length", *request_.sampling.max_tokens}};
  }
  if (choice.finish_reason() == "abort") return {{"type", "abort"}, {"message", "Aborted"}};
  ordered_json json = {{"type", "stop"}, {"matched", nullptr}};
  if (const auto* text = std::get_if<std::string>(&choice.stop_reason())) {
    json["matched"] = *text;
  } else if (!choice.tokens().empty()) {
    json["matched"] = choice.tokens().back();
  }
  return json;
}

ordered_json NativeWriter::TextOf(TokenId token) const {
  if (!request_.logprob_texts) return nullptr;
  return context_.tokenizer.Decode({&token, 1}, /*skip_special=*/false);
}

ordered_json NativeWriter::Entry(const execution::TokenLogprob& one) const {
  return {std::isfinite(one.logprob) ? one.logprob : kNoLogprob, one.token, TextOf(one.token)};
}

void NativeWriter::AddTokens(const std::vector<execution::TokenLogprobs>& tokens, size_t first,
                             ordered_json& chosen, ordered_json& top) const {
  NUMOE_CHECK(chosen.is_array() && top.is_array());
  for (size_t i = first; i < tokens.size(); ++i) {
    chosen.push_back(Entry(tokens[i].chosen));
    ordered_json likely = ordered_json::array();
    for (const execution::TokenLogprob& one : tokens[i].top) likely.push_back(Entry(one));
    top.push_back(std::move(likely));
  }
}

void NativeWriter::AddLogprobs(const Choice& choice, ordered_json& meta) const {
  for (const char* name :
       {"input_token_logprobs", "output_token_logprobs", "input_top_logprobs", "output_top_logprobs"})
    meta[name] = ordered_json::array();
  AddTokens(choice.logprobs(), 0, meta["output_token_logprobs"], meta["output_top_logprobs"]);
  if (!request_.sampling.prompt_logprobs) return;
  // The prompt's first token has no predecessor and no log-probability, so the list begins with the second
  // one.
  auto first = static_cast<size_t>(request_.logprob_start);
  NUMOE_DCHECK_GE(request_.logprob_start, 0);
  if (first == 0) {
    const TokenId token = context_.prompts[static_cast<size_t>(choice.prompt_index())][0];
    meta["input_token_logprobs"].push_back({nullptr, token, TextOf(token)});
    meta["input_top_logprobs"].push_back(nullptr);
    first = 1;
  }
  AddTokens(choice.prompt_logprobs(), first - 1, meta["input_token_logprobs"], meta["input_top_logprobs"]);
}

ordered_json NativeWriter::Answer(const Choice& choice) const {
  const std::chrono::duration<double> latency = std::chrono::steady_clock::now() - begun_;
  ordered_json meta = {{"id", context_.id},
                       {"finish_reason", FinishJson(choice)},
                       {"prompt_tokens", choice.prompt_tokens()},
                       {"completion_tokens", choice.completion_tokens()},
                       {"cached_tokens", choice.cached_prompt_tokens()},
                       {"e2e_latency", latency.count()}};
  if (request_.sampling.logprobs) AddLogprobs(choice, meta);
  return {{"text", choice.answer().content}, {"output_ids", choice.tokens()}, {"meta_info", meta}};
}

std::string NativeWriter::Events(const Choice& choice, const ChoiceStep& step) {
  if (!step.says_something() && !choice.done()) return "";
  ordered_json event = Answer(choice);
  if (request_.list_answer || request_.n > 1) event["index"] = choice.index();
  return SseEvent(event);
}

std::string NativeWriter::Whole(const Choices& choices) {
  NUMOE_CHECK(!choices.empty() && (choices.size() == 1 || request_.list_answer || request_.n > 1));
  ordered_json answers = ordered_json::array();
  for (const auto& choice : choices) answers.push_back(Answer(*choice));
  return DumpJson(request_.list_answer || request_.n > 1 ? answers : answers[0]);
}

}  // namespace numoe::serving
