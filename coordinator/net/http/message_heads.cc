#include "coordinator/net/http/message_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/beast/http.hpp>
#include <ctime>
#include <random>
#include <sstream>

#include "common/base/check.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/url_text.h"

namespace numoe::net {
namespace {

namespace http = boost::beast::http;
using ResponseHead = http::response<http::empty_body>;

constexpr unsigned kHttp11 = 11;
constexpr char kEveryMethod[] = "DELETE, GET, HEAD, OPTIONS, POST";

// The date as RFC 9110, 5.6.7, defines it; strftime would use the names of a locale.
std::string DateNow() {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  NUMOE_CHECK(gmtime_r(&now, &utc) != nullptr);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays.at(static_cast<size_t>(utc.tm_wday)),
                     utc.tm_mday, kMonths.at(static_cast<size_t>(utc.tm_mon)), utc.tm_year + 1900,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

void AddCorsHeaders(const HttpRequest& request, const PageOrigins& pages, ResponseHead& response) {
  const std::string allowed = pages.Allowed(request);
  if (allowed.empty()) return;
  response.set(http::field::access_control_allow_origin, allowed);
  if (allowed != "*") response.set(http::field::vary, "Origin");
  response.set(http::field::access_control_expose_headers,
               "x-request-id, retry-after, x-numoe-ignored-fields");
}

ResponseHead HeadOf(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                    AnswerFraming framing) {
  ResponseHead response(static_cast<http::status>(reply.status), kHttp11);
  response.set(http::field::date, DateNow());
  if (!reply.type.empty()) response.set(http::field::content_type, reply.type);
  response.set("x-request-id", request.id);
  if (reply.status == 429 || reply.status == 503) response.set(http::field::retry_after, "1");
  if (reply.status == 401) response.set(http::field::www_authenticate, "Bearer");
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  AddCorsHeaders(request, pages, response);
  if (!framing.keep_alive) response.set(http::field::connection, "close");
  // An HTTP/1.0 connection is kept only if the answer says so.
  if (framing.keep_alive && framing.http10) response.set(http::field::connection, "keep-alive");
  return response;
}

std::string TextOf(const ResponseHead& response) {
  std::ostringstream head;
  head << response.base();
  return std::move(head).str();
}

// The id is written to logs, traces and other servers' headers, so only visible ASCII characters are
// accepted.
bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= limits::kHttpRequestIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req-{:016x}{:016x}", random(), random());
}

HttpRequest RequestOf(RequestHead head) {
  HttpRequest request;
  request.path = PathOf(head.target);
  request.query = QueryOf(head.target);
  request.method = std::move(head.method);
  request.target = std::move(head.target);
  request.authority = std::move(head.authority);
  request.headers = std::move(head.fields);
  const std::string_view id = request.Header("x-request-id");
  request.id = IsRequestId(id) ? std::string(id) : NewRequestId();
  return request;
}

HttpReply EventStream() {
  return {
      .body = "",
      .type = "text/event-stream; charset=utf-8",
      .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};  // nginx would delay events
}

HttpReply OptionsReply(const HttpRequest& request, const std::string& methods) {
  HttpReply reply{.status = 204, .body = "", .type = ""};
  if (request.path == "*") reply.headers.emplace_back("Allow", kEveryMethod);
  if (!methods.empty()) reply.headers.emplace_back("Allow", methods);
  if (request.Header("origin").empty()) return reply;
  reply.headers.emplace_back("Access-Control-Allow-Methods", kEveryMethod);
  const std::string headers(request.Header("access-control-request-headers"));
  if (!headers.empty()) reply.headers.emplace_back("Access-Control-Allow-Headers", headers);
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

std::string WholeAnswer(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                        AnswerFraming framing) {
  ResponseHead head = HeadOf(request, reply, pages, framing);
  // RFC 9110, 8.6: 204 has no length; HEAD and 304 have the length of the body that they leave out.
  if (reply.status == 204) return TextOf(head);
  head.content_length(reply.body.size());
  return request.method == "HEAD" || reply.status == 304 ? TextOf(head) : TextOf(head) + reply.body;
}

std::string StreamHead(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                       AnswerFraming framing) {
  NUMOE_CHECK(!framing.http10 || !framing.keep_alive) << "an HTTP/1.0 body ends with its connection";
  ResponseHead head = HeadOf(request, reply, pages, framing);
  if (!framing.http10) head.chunked(true);
  return TextOf(head);
}

}  // namespace numoe::net
