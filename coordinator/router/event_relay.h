// EventRelay: passes a backend's stream of server-sent events on to a client.
//
// It passes on complete events, so that a stream that breaks off can still end with an error event of the
// router, in the format of the API: the incomplete last event is left out. An event that is longer than
// limits::kRouterWholeBytesMax is passed on in pieces. The bytes come from a coordinator and are not trusted.
// For use by one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "coordinator/net/http/api_error.h"

namespace numoe::router {

class EventRelay {
 public:
  /// `path` is the route's path, which determines the API.
  explicit EventRelay(std::string_view path);

  /// Adds bytes and returns what can be passed on now.
  std::string Take(std::string_view bytes);
  /// Returns the rest after the end of the stream.
  std::string Rest();
  /// Returns whether the stream has had its final event.
  bool ended() const { return ended_; }
  /// Returns the events that end the stream with an error.
  std::string Failure(const net::ApiError& error) const;

 private:
  enum class Dialect : uint8_t { kOpenAi, kMessages, kResponses };

  bool IsLast(std::string_view event) const;

  const Dialect dialect_;
  std::string held_;       // the beginning of an event whose end is not received yet
  bool in_event_ = false;  // whether a part of an event has been passed on
  bool ended_ = false;
  size_t events_ = 0;  // that were passed on
};

}  // namespace numoe::router
