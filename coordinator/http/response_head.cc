#include "coordinator/http/response_head.h"

#include <algorithm>
#include <sstream>

namespace numoe {
namespace {

namespace http = boost::beast::http;

constexpr unsigned kHttp11 = 11;

}  // namespace

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

}  // namespace numoe
