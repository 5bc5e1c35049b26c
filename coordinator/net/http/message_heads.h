// The heads of HTTP messages: what a request's says and whether it may, headers that every response has,
// those of CORS, and where a stream's body begins.
//
// Pure functions, except that a request without an id gets a random one.
#pragma once

#include <boost/beast/http.hpp>
#include <optional>
#include <string>

#include "coordinator/net/http/api_error.h"
#include "coordinator/net/http/exchange.h"
#include "coordinator/net/http/server.h"

namespace numoe::net {

using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

std::string NewRequestId();
/// What is wrong with a request's head by RFC 9112 that its parser lets through; none: nothing. Such a head
/// may say something else to whoever forwarded it, so its connection is not used again.
std::optional<ApiError> WrongHead(const boost::beast::http::request_header<>& head);
/// The request without its body.
HttpRequest RequestOf(const boost::beast::http::request_header<>& head);
/// What a stream of server-sent events begins with.
HttpReply EventStream();
/// Adds what CORS asks for where the request names an origin that may ask.
void AddCorsHeaders(const HttpRequest& request, const ServerOptions& options, HttpResponse& response);
/// The answer to a preflight request.
HttpResponse PreflightResponse(const HttpRequest& request, const ServerOptions& options);
HttpResponse MakeResponse(const HttpRequest& request, HttpReply reply, const ServerOptions& options,
                          bool keep_alive);
/// The status line and headers of an answer whose body is sent in chunks.
std::string ChunkedHead(const HttpRequest& request, const HttpReply& reply, const ServerOptions& options,
                        bool keep_alive);

}  // namespace numoe::net
