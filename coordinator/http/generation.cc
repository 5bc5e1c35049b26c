#include "coordinator/http/generation.h"

#include <algorithm>

namespace numoe {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}
std::string Sse(const ordered_json& json) { return "data: " + Dump(json) + "\n\n"; }

std::vector<TokenId> StopIds(const CompletionRequest& request, const std::vector<TokenId>& eos) {
  std::vector<TokenId> ids = request.sampling.stop_token_ids;
  if (!request.sampling.ignore_eos) ids.insert(ids.end(), eos.begin(), eos.end());
  return ids;
}

}  // namespace

Generation::Generation(const CompletionRequest& request, const Tokenizer& tokenizer, std::string id,
                       std::string model, int prompt_tokens, const std::vector<TokenId>& eos)
    : chat_(request.chat),
      include_usage_(request.include_usage),
      id_(std::move(id)),
      model_(std::move(model)),
      prompt_tokens_(prompt_tokens),
      stop_ids_(StopIds(request, eos)),
      decoder_(tokenizer, /*skip_special=*/true),
      stops_(request.stop) {}

std::string Generation::Take(const TokenEvent& event) {
  std::string text;
  if (done_) return text;
  for (const TokenId token : event.tokens) {
    ++completion_tokens_;
    // The token that ended it is not part of the answer.
    const bool ends = event.finish == FinishReason::kStop &&
                      std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
    if (!ends) text += stops_.Push(decoder_.Push(token));
  }
  if (stops_.stopped()) {
    done_ = true;
    finish_reason_ = "stop";
  } else if (event.finish != FinishReason::kNone) {
    done_ = true;
    text += stops_.Push(decoder_.Flush());
    text += stops_.Flush();
    finish_reason_ = event.finish == FinishReason::kStop || stops_.stopped() ? "stop" : "length";
  }
  text_ += text;
  return text;
}

ordered_json Generation::Base(const char* chat_object, const char* text_object) const {
  return {
      {"id", id_}, {"object", chat_ ? chat_object : text_object}, {"created", created_}, {"model", model_}};
}

ordered_json Generation::Usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion_tokens_},
          {"total_tokens", prompt_tokens_ + completion_tokens_}};
}

ordered_json Generation::Finish() const {
  return done_ ? ordered_json(finish_reason_) : ordered_json(nullptr);
}

std::string Generation::Chunk(const std::string& text) {
  ordered_json chunk = Base("chat.completion.chunk", "text_completion");
  ordered_json choice = {{"index", 0}};
  if (chat_) {
    ordered_json delta = ordered_json::object();
    if (first_chunk_) delta["role"] = "assistant";
    if (!text.empty() || first_chunk_) delta["content"] = text;
    choice["delta"] = delta;
  } else {
    choice["text"] = text;
  }
  first_chunk_ = false;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = Finish();
  chunk["choices"] = ordered_json::array({choice});
  if (include_usage_) chunk["usage"] = nullptr;
  return Sse(chunk);
}

std::string Generation::UsageChunk() const {
  ordered_json chunk = Base("chat.completion.chunk", "text_completion");
  chunk["choices"] = ordered_json::array();
  chunk["usage"] = Usage();
  return Sse(chunk);
}

std::string Generation::Answer() const {
  ordered_json answer = Base("chat.completion", "text_completion");
  ordered_json choice = {{"index", 0}};
  if (chat_) {
    choice["message"] = {{"role", "assistant"}, {"content", text_}, {"refusal", nullptr}};
  } else {
    choice["text"] = text_;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = Finish();
  answer["choices"] = ordered_json::array({choice});
  answer["usage"] = Usage();
  return Dump(answer);
}

}  // namespace numoe
