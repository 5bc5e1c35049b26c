// Admission: everything that is decided from a request's head alone: its route, its key's concurrency slot,
// and whether there is room for its body.
//
// Each connection has one Admission and uses it for one request after the other. A refusal is a reply in the
// error shape that the route's clients expect. Routes that need no key are never refused for lack of room,
// because health checks and scrapes are needed most when the server is full. A slot is held until Leave. Used
// only on the connection's strand; whatever `parts` refers to outlives it.
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
  /// `spare`: the connection exceeds --max-connections, so it may use only routes that need no key.
  Admission(const ServerParts& parts, bool spare) : parts_(parts), spare_(spare) {}

  /// Prepares for the next request, which has no route yet. REQUIRES: no slot is held.
  void Begin();
  /// Finds the route, acquires a slot if the route needs one, and stores the caller and the captures of the
  /// path in the request. Returns the reply that refuses the request, or nullopt if it is admitted.
  std::optional<HttpReply> Enter(Answer& exchange, AnnouncedBody body);
  /// Frees the slot, if one is held.
  void Leave() { slot_.reset(); }

  /// Null if Enter has not been called yet, or has found no route.
  const Route* route() const { return route_; }
  std::shared_ptr<ConcurrencySlot> slot() const { return slot_; }
  HttpReply ReplyOf(const ApiError& error) const {
    return {.status = error.http_status, .body = error.ToJson(errors_)};
  }
  ApiError TooLarge() const;
  ApiError NoRoomForBody() const;

 private:
  /// Checks a request whose route is known: whether its web page may send it, and whether its body is JSON.
  /// Returns nullopt if nothing is wrong.
  std::optional<ApiError> Objection(const HttpRequest& request, AnnouncedBody body) const;

  const ServerParts& parts_;
  const bool spare_;
  const Route* route_ = nullptr;
  ErrorShape errors_ = ErrorShape::kOpenAi;
  std::shared_ptr<Access::Slot> slot_;
};

}  // namespace numoe::net
