// EventRelay: a backend's stream of server-sent events on its way to a client.
//
// Passes on whole events, so that a stream that breaks off can still end with an event of the router's own,
// in the words that the API has for it: what had come of the last event is left out. An event that is longer
// than limits::kRouterWholeBytesMax is passed on as it comes. Bytes of a coordinator, which are not believed.
// One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "coordinator/net/http/api_error.h"

namespace numoe::router {

class EventRelay {
 public:
  /// `path`: of the route that answers, which says whose API it is.
  explicit EventRelay(std::string_view path);

  /// What of all that has come can be passed on now.
  std::string Take(std::string_view bytes);
  /// What is left when the stream has ended.
  std::string Rest();
  /// Whether the last event is the one behind which none comes.
  bool ended() const { return ended_; }
  /// The events that end the stream as broken.
  std::string Failure(const net::ApiError& error) const;

 private:
  enum class Dialect : uint8_t { kOpenAi, kMessages, kResponses };

  bool IsLast(std::string_view event) const;

  const Dialect dialect_;
  std::string held_;       // of an event whose end has not come
  bool in_event_ = false;  // part of an event has been passed on
  bool ended_ = false;
  size_t events_ = 0;  // passed on
};

}  // namespace numoe::router
