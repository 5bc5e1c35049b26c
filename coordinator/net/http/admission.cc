#include "coordinator/net/http/admission.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/net/http/http_limits.h"

namespace numoe::net {
namespace {

ApiError NoRoom(const std::string& why) {
  return {
      .http_status = 503, .message = why + "; try again later", .type = "server_error", .code = "overloaded"};
}

}  // namespace

void Admission::Begin() {
  NUMOE_CHECK(slot_ == nullptr) << "one request at a time";
  route_ = nullptr;
  errors_ = ErrorShape::kOpenAi;
}

std::optional<HttpReply> Admission::Enter(Answer& exchange, uint64_t body_bytes) {
  const HttpRequest& request = exchange.request();
  const UrlTable& urls = *parts_.urls.load();
  // HEAD asks for what GET would say, without the body.
  auto found = urls.Find(request.method == "HEAD" ? "GET" : request.method, request.path);
  if (const auto* error = std::get_if<ApiError>(&found)) {
    HttpReply reply = ReplyOf(*error);
    if (error->http_status == 405) reply.headers = {{"Allow", urls.Allowed(request.path)}};
    return reply;
  }
  const auto& match = std::get<RouteMatch>(found);
  route_ = match.route;
  errors_ = route_->errors;
  exchange.incoming().captures = match.captures;
  if (route_->open) return std::nullopt;
  if (spare_) {
    return ReplyOf(NoRoom(
        fmt::format("the server has {} connections, as many as it takes", parts_.options.connections_max)));
  }
  auto slot = parts_.access.Enter(request, route_->counted);
  if (!slot.ok()) return ReplyOf(FromStatus(slot.status()));
  slot_ = *std::move(slot);
  exchange.incoming().caller = slot_->caller();
  if (body_bytes > route_->body_max) return ReplyOf(TooLarge());
  exchange.body_share().BelongTo(slot_->caller().tenant);
  if (!parts_.bodies->HasRoom(slot_->caller().tenant, body_bytes)) return ReplyOf(NoRoomForBody());
  return std::nullopt;
}

ApiError Admission::TooLarge() const {
  return {.http_status = 413,
          .message = fmt::format("the request's body is larger than the {} bytes that this path takes, or "
                                 "its headers, trailers or the line before a chunk are larger than {}",
                                 route_ == nullptr ? limits::kHttpBodyBytesMax : route_->body_max,
                                 limits::kHttpHeaderBytesMax),
          .code = "request_too_large"};
}

ApiError Admission::NoRoomForBody() const {
  return NoRoom(
      fmt::format("the requests in hand leave no room for this one: those of all clients may have {} MiB "
                  "together, those of one key half of it",
                  parts_.bodies->bytes_max() >> 20));
}

}  // namespace numoe::net
