// Admission: what a request's head alone decides: its route, its key's place, and whether there is room for
// its body.
//
// One for a connection, which asks it for one request after the other. Refusals are answers in the shape that
// the route's clients expect. Routes that need no key are spared: health checks and scrapes are wanted most
// when there is no room. A place that was given is held until Leave. Used on the connection's strand only;
// what `parts` names outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "coordinator/net/http/access.h"
#include "coordinator/net/http/answer.h"
#include "coordinator/net/http/connection.h"
#include "coordinator/net/http/request_head.h"
#include "coordinator/net/http/url_table.h"

namespace numoe::net {

class Admission {
 public:
  /// `spare`: the connection came beyond --max-connections, so it may ask only what needs no key.
  Admission(const ServerParts& parts, bool spare) : parts_(parts), spare_(spare) {}

  /// The next request has come: it has no route yet. REQUIRES: no place is held.
  void Begin();
  /// Finds the route, and a place for a request that needs one; the request is told whose it is and what its
  /// path names. What it is refused with, or nothing.
  std::optional<HttpReply> Enter(Answer& exchange, AnnouncedBody body);
  /// Gives the place back, if there is one.
  void Leave() { slot_.reset(); }

  /// null: none was found, or looked for.
  const Route* route() const { return route_; }
  std::shared_ptr<RequestPlace> place() const { return slot_; }
  HttpReply ReplyOf(const ApiError& error) const {
    return {.status = error.http_status, .body = error.ToJson(errors_)};
  }
  ApiError TooLarge() const;
  ApiError NoRoomForBody() const;

 private:
  /// The route is found: whether this request may be made of it, and is understood.
  std::optional<ApiError> Objection(const HttpRequest& request, AnnouncedBody body) const;

  const ServerParts& parts_;
  const bool spare_;
  const Route* route_ = nullptr;
  ErrorShape errors_ = ErrorShape::kOpenAi;
  std::shared_ptr<Access::Slot> slot_;
};

}  // namespace numoe::net
