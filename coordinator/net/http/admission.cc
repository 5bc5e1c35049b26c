#include "coordinator/net/http/admission.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/lower_case.h"
#include "coordinator/net/http/message_heads.h"

namespace numoe::net {
namespace {

ApiError NoRoom(const std::string& why) {
  return {
      .http_status = 503, .message = why + "; try again later", .type = "server_error", .code = "overloaded"};
}

// curl and wget declare JSON as a form's type unless they are told otherwise.
bool IsJsonType(std::string_view value) {
  const std::string type = LowerCase(value.substr(0, value.find_first_of("; \t")));
  return value.empty() || type == "application/json" || type.ends_with("+json") ||
         type == "application/x-www-form-urlencoded";
}

}  // namespace

void Admission::Begin() {
  NUMOE_CHECK(slot_ == nullptr) << "a connection has one request at a time";
  route_ = nullptr;
  errors_ = ErrorShape::kOpenAi;
}

std::optional<HttpReply> Admission::Enter(Answer& exchange, AnnouncedBody body) {
  const HttpRequest& request = exchange.request();
  const UrlTable& urls = *parts_.urls.load();
  if (request.method == "OPTIONS") return OptionsReply(request, urls.Allowed(request.path));
  // HEAD finds the route of GET; its answer has no body.
  auto found = urls.Find(request.method == "HEAD" ? "GET" : request.method, request.path);
  if (const auto* error = std::get_if<ApiError>(&found)) {
    HttpReply reply = ReplyOf(*error);
    if (error->http_status == 405) reply.headers = {{"Allow", urls.Allowed(request.path)}};
    return reply;
  }
  auto& match = std::get<RouteMatch>(found);
  route_ = match.route;
  errors_ = route_->errors;
  exchange.incoming().captures = std::move(match.captures);
  exchange.incoming().path = std::move(match.path);
  if (route_->open) return std::nullopt;
  if (const auto refusal = Objection(request, body)) {
    HttpReply reply = ReplyOf(*refusal);
    if (refusal->http_status == 415) reply.headers = {{"Accept-Encoding", "identity"}};
    return reply;
  }
  if (spare_) {
    return ReplyOf(
        NoRoom(fmt::format("the server has its maximum of {} connections", parts_.options.connections_max)));
  }
  auto slot = parts_.access.Enter(request, route_->counted);
  if (!slot.ok()) return ReplyOf(FromStatus(slot.status()));
  slot_ = *std::move(slot);
  exchange.incoming().caller = slot_->caller();
  if (body.bytes > route_->body_max) return ReplyOf(TooLarge());
  exchange.body_share().BelongTo(slot_->caller().tenant);
  if (!parts_.bodies->HasRoom(slot_->caller().tenant, body.bytes)) return ReplyOf(NoRoomForBody());
  return std::nullopt;
}

std::optional<ApiError> Admission::Objection(const HttpRequest& request, AnnouncedBody body) const {
  if (auto refusal = parts_.pages.Refusal(request)) return refusal;
  if (!body.any()) return std::nullopt;
  const auto unsupported = [](const std::string& message) {
    return ApiError{.http_status = 415, .message = message, .code = "unsupported_media_type"};
  };
  const std::string_view coding = request.Header("content-encoding"), type = request.Header("content-type");
  if (!coding.empty() && LowerCase(coding) != "identity") {
    return unsupported(fmt::format("the Content-Encoding {} is not supported; expected an uncompressed body",
                                   Shown(coding)));
  }
  if (!IsJsonType(type)) {
    return unsupported(fmt::format("the Content-Type is {}; expected application/json", Shown(type)));
  }
  return std::nullopt;
}

ApiError Admission::TooLarge() const {
  return {.http_status = 413,
          .message = fmt::format(
              "the request's body is larger than the {} bytes that this path accepts, or its "
              "trailers and the extensions of its chunks are larger than {} bytes",
              route_ == nullptr ? limits::kHttpBodyBytesMax : route_->body_max, limits::kHttpHeaderBytesMax),
          .code = "request_too_large"};
}

ApiError Admission::NoRoomForBody() const {
  return NoRoom(fmt::format(
      "there is no room for the body of this request: unfinished bodies of all clients may have {} "
      "MiB together, those of one key half of it",
      parts_.bodies->bytes_max() >> 20));
}

}  // namespace numoe::net
