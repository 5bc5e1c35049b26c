#include "coordinator/net/http/message_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <sstream>

#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/url_text.h"

namespace numoe::net {
namespace {

namespace http = boost::beast::http;

constexpr unsigned kHttp11 = 11;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req-{:016x}{:016x}", random(), random());
}

std::optional<ApiError> WrongHead(const http::request_header<>& head) {
  constexpr size_t kShown = 60;
  const size_t hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() >= kHttp11))
    return BadRequest("", fmt::format("the request has {} Host headers: expected one", hosts));
  const auto codings = head.equal_range(http::field::transfer_encoding);
  const auto lines = std::distance(codings.first, codings.second);
  if (lines > 1)
    return BadRequest(
        "", fmt::format("the request has {} Transfer-Encoding headers: expected at most one", lines));
  if (lines == 1 && !boost::beast::iequals(codings.first->value(), "chunked")) {
    return BadRequest("", fmt::format("the Transfer-Encoding header: expected chunked, found {}",
                                      View(codings.first->value()).substr(0, kShown)));
  }
  const auto expects = head.equal_range(http::field::expect);
  for (auto expect = expects.first; expect != expects.second; ++expect) {
    if (boost::beast::iequals(expect->value(), "100-continue")) continue;
    ApiError error = BadRequest("", fmt::format("the Expect header: expected 100-continue, found {}",
                                                View(expect->value()).substr(0, kShown)));
    error.http_status = 417;
    return error;
  }
  return std::nullopt;
}

HttpRequest RequestOf(const http::request_header<>& head) {
  HttpRequest request;
  request.method = std::string(View(head.method_string()));
  request.target = std::string(View(head.target()));
  request.path = PathOf(View(head.target()));
  request.query = QueryOf(View(head.target()));
  for (const auto& field : head) {
    std::string name(View(field.name_string()));
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    request.headers.emplace_back(std::move(name), View(field.value()));
  }
  const std::string_view id = request.Header("x-request-id");
  request.id = id.empty() || id.size() > limits::kHttpRequestIdBytesMax ? NewRequestId() : std::string(id);
  return request;
}

HttpReply EventStream() {
  return {
      .body = "",
      .type = "text/event-stream; charset=utf-8",
      .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};  // nginx would gather events
}

void AddCorsHeaders(const HttpRequest& request, const ServerOptions& options, HttpResponse& response) {
  const std::string origin(request.Header("origin"));
  if (origin.empty()) return;
  const auto& allowed = options.allowed_origins;
  const bool any = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  if (!any && std::find(allowed.begin(), allowed.end(), origin) == allowed.end()) return;
  response.set(http::field::access_control_allow_origin, any ? "*" : origin);
  if (!any) response.set(http::field::vary, "Origin");
  response.set(http::field::access_control_expose_headers, "x-request-id, retry-after");
}

HttpResponse PreflightResponse(const HttpRequest& request, const ServerOptions& options) {
  HttpResponse response(http::status::no_content, kHttp11);
  AddCorsHeaders(request, options, response);
  response.set(http::field::access_control_allow_methods, "GET, POST, DELETE, OPTIONS");
  const std::string headers(request.Header("access-control-request-headers"));
  if (!headers.empty()) response.set(http::field::access_control_allow_headers, headers);
  response.set(http::field::access_control_max_age, "600");
  return response;
}

namespace {

HttpResponse HeadOf(const HttpRequest& request, const HttpReply& reply, const ServerOptions& options,
                    bool keep_alive) {
  HttpResponse response(static_cast<http::status>(reply.status), kHttp11);
  if (!reply.type.empty()) response.set(http::field::content_type, reply.type);
  response.set("x-request-id", request.id);
  if (reply.status == 429 || reply.status == 503) response.set(http::field::retry_after, "1");
  if (reply.status == 401) response.set(http::field::www_authenticate, "Bearer");
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  AddCorsHeaders(request, options, response);
  response.keep_alive(keep_alive);
  return response;
}

}  // namespace

HttpResponse MakeResponse(const HttpRequest& request, HttpReply reply, const ServerOptions& options,
                          bool keep_alive) {
  HttpResponse response = HeadOf(request, reply, options, keep_alive);
  const size_t size = reply.body.size();
  // Both tell the length of what they leave out.
  if (request.method != "HEAD" && reply.status != 304) response.body() = std::move(reply.body);
  response.content_length(size);
  return response;
}

std::string ChunkedHead(const HttpRequest& request, const HttpReply& reply, const ServerOptions& options,
                        bool keep_alive) {
  HttpResponse response = HeadOf(request, reply, options, keep_alive);
  response.chunked(true);
  std::ostringstream head;
  head << response.base();
  return head.str();
}

}  // namespace numoe::net
