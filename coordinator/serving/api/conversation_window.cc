#include "coordinator/serving/api/conversation_window.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/preparation.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using TokenIds = std::vector<TokenId>;
using Tokenised = std::variant<TokenIds, net::ApiError>;

Tokenised Tokenise(const GenerationRequest& request, const Conversation& conversation, const ApiDeps& deps) {
  const auto segments = RenderConversation(request, conversation, deps);
  if (const auto* error = std::get_if<net::ApiError>(&segments)) return *error;
  return deps.tokenizer.EncodeSegments(std::get<std::vector<TextSegment>>(segments));
}

std::string RoleOf(const ordered_json& message) { return message.at("role").get<std::string>(); }

// Finds the shortest beginning that must be left out for the conversation to fit.
class Window {
 public:
  Window(const GenerationRequest& request, const ApiDeps& deps)
      : request_(request), deps_(deps), messages_(request.conversation->messages) {
    const int64_t room = request.sampling.max_tokens ? *request.sampling.max_tokens
                                                     : deps.max_model_len / limits::kAnswerRoomShare;
    prompt_tokens_max_ =
        deps.max_model_len - std::clamp<int64_t>(room, 1, std::max<int64_t>(1, deps.max_model_len / 2));
    NUMOE_CHECK(0 <= prompt_tokens_max_ && prompt_tokens_max_ < deps.max_model_len);
    while (head_ < messages_.size() &&
           (RoleOf(messages_[head_]) == "system" || RoleOf(messages_[head_]) == "developer"))
      ++head_;
  }

  Tokenised Find() {
    Tokenised whole = Tokenise(request_, *request_.conversation, deps_);
    if (Fits(whole) || !IsTooLong(whole)) return whole;
    // Messages of the user come first; others are tried only if the last turn alone is too long.
    std::vector<size_t> users, others;
    for (size_t i = head_ + 1; i < messages_.size(); ++i) {
      const std::string role = RoleOf(messages_[i]);
      if (role == "user") {
        users.push_back(i);
        others.clear();
      } else if (role != "tool") {
        others.push_back(i);
      }
    }
    for (const std::vector<size_t>& begins : {users, others}) {
      if (std::optional<TokenIds> found = FirstThatFits(begins)) return *std::move(found);
    }
    return whole;
  }

 private:
  bool Fits(const Tokenised& tokenised) const {
    const auto* ids = std::get_if<TokenIds>(&tokenised);
    return ids != nullptr && static_cast<int64_t>(ids->size()) <= prompt_tokens_max_;
  }
  static bool IsTooLong(const Tokenised& tokenised) {
    const auto* error = std::get_if<net::ApiError>(&tokenised);
    return error == nullptr || error->code == kContextLengthExceeded;
  }

  // `begins` are the possible beginnings of the rest, in order: a later one makes it shorter.
  std::optional<TokenIds> FirstThatFits(const std::vector<size_t>& begins) const {
    NUMOE_CHECK(std::is_sorted(begins.begin(), begins.end()));
    std::optional<TokenIds> found;
    size_t low = 0, high = begins.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      Tokenised tokenised = Tokenise(request_, From(begins[middle]), deps_);
      if (Fits(tokenised)) {
        found = std::get<TokenIds>(std::move(tokenised));
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return found;
  }

  Conversation From(size_t begin) const {
    NUMOE_CHECK(head_ < begin && begin < messages_.size());
    Conversation window = *request_.conversation;
    window.messages = ordered_json::array();
    for (size_t i = 0; i < messages_.size(); ++i) {
      const auto calls = messages_[i].find("tool_calls");
      if (i < head_ || i >= begin) {
        window.messages.push_back(messages_[i]);
      } else if (calls != messages_[i].end()) {
        window.calls_left_out += static_cast<int>(calls->size());
      }
    }
    return window;
  }

  const GenerationRequest& request_;
  const ApiDeps& deps_;
  const ordered_json& messages_;
  int64_t prompt_tokens_max_ = 0;
  size_t head_ = 0;  // messages at the beginning that are kept
};

}  // namespace

Tokenised TokeniseConversation(const GenerationRequest& request, const ApiDeps& deps) {
  NUMOE_CHECK(request.conversation.has_value());
  if (request.truncation.messages) return Window(request, deps).Find();
  return Tokenise(request, *request.conversation, deps);
}

}  // namespace numoe::serving
