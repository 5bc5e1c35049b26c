#include "coordinator/http/generation.h"

#include <algorithm>

#include "coordinator/chat/tool_history.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;
using Kind = AnswerDelta::Kind;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}
std::string Sse(const ordered_json& json) { return "data: " + Dump(json) + "\n\n"; }

std::vector<TokenId> StopIds(const CompletionRequest& request, const std::vector<TokenId>& eos) {
  std::vector<TokenId> ids = request.sampling.stop_token_ids;
  if (!request.sampling.ignore_eos) ids.insert(ids.end(), eos.begin(), eos.end());
  return ids;
}

const OutputFormat& FormatOf(const CompletionRequest& request, const GenerationSetup& setup) {
  static const OutputFormat raw;
  return request.chat ? setup.format : raw;
}

OutputParserOptions ParserOptions(const CompletionRequest& request, const GenerationSetup& setup) {
  if (!request.chat) return {};
  return {.calls = !request.tools.is_null(),
          .parallel_calls = request.parallel_tool_calls,
          .tools = ReadDeclaredTools(request.tools),
          .first_call_number = NextCallNumber(request.messages),
          .prompt_mark = PromptMark(setup.format, setup.tokenizer, setup.prompt)};
}

// Both names that clients know: reasoning_content (DeepSeek, SGLang) and reasoning (vLLM).
void AddReasoning(const std::string& text, ordered_json& object) {
  object["reasoning_content"] = text;
  object["reasoning"] = text;
}

void AddDelta(const AnswerDelta& delta, ordered_json& object) {
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

}  // namespace

Generation::Generation(const CompletionRequest& request, const GenerationSetup& setup)
    : chat_(request.chat),
      include_usage_(request.include_usage),
      id_(setup.id),
      model_(setup.model),
      prompt_tokens_(static_cast<int>(setup.prompt.size())),
      stop_ids_(StopIds(request, setup.eos_token_ids)),
      parser_(setup.tokenizer, FormatOf(request, setup), ParserOptions(request, setup)),
      stops_(request.stop) {}

std::vector<AnswerDelta> Generation::Take(const TokenEvent& event) {
  std::vector<AnswerDelta> out;
  if (done_) return out;
  cached_prompt_tokens_ = event.cached_prompt_tokens;
  for (const TokenId token : event.tokens) {
    ++completion_tokens_;
    // The token that ended it is not part of the answer.
    const bool ends = event.finish == FinishReason::kStop &&
                      std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
    if (!ends) TakeToken(token, out);
    if (done_) break;
  }
  if (!done_ && event.finish != FinishReason::kNone) {
    done_ = true;
    std::vector<AnswerDelta> parsed;
    parser_.Finish(parsed);
    Add(std::move(parsed), out);
    AddContent(stops_.Flush(), out);
    finish_reason_ = event.finish == FinishReason::kStop || stops_.stopped() ? "stop" : "length";
  }
  for (const AnswerDelta& delta : out) answer_.Add(delta);
  if (finish_reason_ == "stop" && !answer_.calls.empty()) finish_reason_ = "tool_calls";
  return out;
}

void Generation::TakeToken(TokenId token, std::vector<AnswerDelta>& out) {
  std::vector<AnswerDelta> parsed;
  parser_.Push(token, parsed);
  Add(std::move(parsed), out);
  if (!stops_.stopped() && !parser_.complete()) return;
  AddContent(stops_.Flush(), out);
  done_ = ended_early_ = true;
  finish_reason_ = "stop";
}

void Generation::Add(std::vector<AnswerDelta> parsed, std::vector<AnswerDelta>& out) {
  for (AnswerDelta& delta : parsed) {
    if (delta.kind == Kind::kContent) {
      AddContent(stops_.Push(delta.text), out);
      continue;
    }
    AddContent(stops_.Flush(), out);  // no stop string reaches across a call
    if (!stops_.stopped()) Append(std::move(delta), out);
  }
}

void Generation::AddContent(std::string text, std::vector<AnswerDelta>& out) {
  if (!text.empty()) Append({.kind = Kind::kContent, .text = std::move(text)}, out);
}

ordered_json Generation::Base(const char* chat_object, const char* text_object) const {
  return {
      {"id", id_}, {"object", chat_ ? chat_object : text_object}, {"created", created_}, {"model", model_}};
}

ordered_json Generation::Usage() const {
  ordered_json usage = {{"prompt_tokens", prompt_tokens_},
                        {"completion_tokens", completion_tokens_},
                        {"total_tokens", prompt_tokens_ + completion_tokens_},
                        {"prompt_tokens_details", {{"cached_tokens", cached_prompt_tokens_}}}};
  if (chat_) usage["completion_tokens_details"] = {{"reasoning_tokens", parser_.reasoning_tokens()}};
  return usage;
}

ordered_json Generation::Finish() const {
  return done_ ? ordered_json(finish_reason_) : ordered_json(nullptr);
}

std::string Generation::Events(const std::vector<AnswerDelta>& deltas) {
  if (deltas.empty()) return done_ ? Event(nullptr, true) : "";
  std::string events;
  for (const AnswerDelta& delta : deltas) events += Event(&delta, &delta == &deltas.back());
  return events;
}

std::string Generation::Event(const AnswerDelta* delta, bool last) {
  ordered_json chunk = Base("chat.completion.chunk", "text_completion");
  ordered_json choice = {{"index", 0}};
  if (chat_) {
    ordered_json object = ordered_json::object();
    if (first_event_) object["role"] = "assistant";
    if (delta != nullptr) {
      AddDelta(*delta, object);
    } else if (first_event_) {
      object["content"] = "";
    }
    choice["delta"] = object;
  } else {
    choice["text"] = delta != nullptr ? delta->text : "";
  }
  first_event_ = false;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = last ? Finish() : ordered_json(nullptr);
  chunk["choices"] = ordered_json::array({choice});
  if (include_usage_) chunk["usage"] = nullptr;
  return Sse(chunk);
}

std::string Generation::UsageEvent() const {
  ordered_json chunk = Base("chat.completion.chunk", "text_completion");
  chunk["choices"] = ordered_json::array();
  chunk["usage"] = Usage();
  return Sse(chunk);
}

ordered_json Generation::Message() const {
  ordered_json message = {{"role", "assistant"}, {"content", answer_.content}, {"refusal", nullptr}};
  if (answer_.content.empty() && !answer_.calls.empty()) message["content"] = nullptr;
  if (!answer_.reasoning.empty()) AddReasoning(answer_.reasoning, message);
  for (const ToolCall& call : answer_.calls) {
    message["tool_calls"].push_back({{"id", call.id},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

std::string Generation::Answer() const {
  ordered_json answer = Base("chat.completion", "text_completion");
  ordered_json choice = {{"index", 0}};
  if (chat_) {
    choice["message"] = Message();
  } else {
    choice["text"] = answer_.content;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = Finish();
  answer["choices"] = ordered_json::array({choice});
  answer["usage"] = Usage();
  return Dump(answer);
}

}  // namespace numoe
