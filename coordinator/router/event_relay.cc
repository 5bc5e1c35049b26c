#include "coordinator/router/event_relay.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/router/router_limits.h"
#include "nlohmann/json.hpp"

namespace numoe::router {
namespace {

constexpr std::string_view kEventEnd = "\n\n";

}  // namespace

EventRelay::EventRelay(std::string_view path)
    : dialect_(path == "/v1/messages"              ? Dialect::kMessages
               : path.starts_with("/v1/responses") ? Dialect::kResponses
                                                   : Dialect::kOpenAi) {}

bool EventRelay::IsLast(std::string_view event) const {
  const auto begins = [event](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [event](std::string_view word) { return event.starts_with(word); });
  };
  switch (dialect_) {
    case Dialect::kMessages:
      return begins({"event: message_stop\n", "event: error\n"});
    case Dialect::kResponses:
      return begins({"event: response.completed\n", "event: response.incomplete\n",
                     "event: response.failed\n", "event: response.cancelled\n"});
    default:
      return begins({"data: [DONE]"});
  }
}

std::string EventRelay::Take(std::string_view bytes) {
  held_ += bytes;
  const size_t last = held_.rfind(kEventEnd);
  if (last == std::string::npos) {
    if (held_.size() <= limits::kRouterWholeBytesMax) return "";
    in_event_ = true;
    return std::exchange(held_, "");
  }
  std::string whole = held_.substr(0, last + kEventEnd.size());
  held_.erase(0, whole.size());
  in_event_ = false;
  for (std::string_view rest = whole; !rest.empty();) {
    const size_t end = rest.find(kEventEnd);
    NUMOE_CHECK(end != std::string_view::npos);
    ended_ = IsLast(rest.substr(0, end + kEventEnd.size()));
    ++events_;
    rest.remove_prefix(end + kEventEnd.size());
  }
  return whole;
}

std::string EventRelay::Rest() { return std::exchange(held_, ""); }

std::string EventRelay::Failure(const net::ApiError& error) const {
  NUMOE_CHECK(!ended_);
  const std::string before(in_event_ ? kEventEnd : "");
  switch (dialect_) {
    case Dialect::kMessages:
      return before + "event: error\ndata: " + error.ToJson(net::ErrorShape::kAnthropic) + "\n\n";
    case Dialect::kResponses:
      return before + "event: error\ndata: " +
             DumpJson({{"type", "error"},
                       {"code", error.code.value_or(error.type)},
                       {"message", error.message},
                       {"param", nullptr},
                       {"sequence_number", events_}}) +
             "\n\n";
    default:
      return before + "data: " + error.ToJson() + "\n\ndata: [DONE]\n\n";
  }
}

}  // namespace numoe::router
